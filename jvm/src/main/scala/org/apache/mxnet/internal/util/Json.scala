package org.apache.mxnet
package internal.util

import org.apache.mxnet.MXNetError

/** Parses JSON to maps, sequences, strings, doubles, booleans and null. */
private[mxnet] object Json {

  /** The value of a JSON text.
    *
    * @throws MXNetError if the text is not JSON; the message has the position of the error
    */
  def parse(text: String): Any = {
    val parser = new Parser(text)
    val value = parser.value()
    parser.end()
    value
  }

  private final class Parser(text: String) {
    private var at = 0

    private def fail(expected: String): Nothing =
      throw new MXNetError(s"invalid JSON at character $at: expected $expected but found ${text.slice(at, at + 20)}")

    private def skipSpace(): Unit = while (at < text.length && text.charAt(at).isWhitespace) at += 1

    private def peek(expected: String): Char = {
      skipSpace()
      if (at >= text.length) fail(expected)
      text.charAt(at)
    }

    private def take(char: Char): Unit = {
      if (peek(s"'$char'") != char) fail(s"'$char'")
      at += 1
    }

    private def takeIf(char: Char): Boolean = {
      val found = peek(s"'$char'") == char
      if (found) at += 1
      found
    }

    def end(): Unit = {
      skipSpace()
      if (at < text.length) fail("the end")
    }

    def value(): Any = peek("a value") match {
      case '{' => objectValue()
      case '[' => arrayValue()
      case '"' => string()
      case 't' => word("true", true)
      case 'f' => word("false", false)
      case 'n' => word("null", null)
      case _   => number()
    }

    private def word(literal: String, value: Any): Any = {
      if (!text.startsWith(literal, at)) fail(literal)
      at += literal.length
      value
    }

    private def objectValue(): Map[String, Any] = {
      take('{')
      val entries = Map.newBuilder[String, Any]
      if (!takeIf('}')) {
        var more = true
        while (more) {
          peek("a name")
          val key = string()
          take(':')
          entries += key -> value()
          more = takeIf(',')
        }
        take('}')
      }
      entries.result()
    }

    private def arrayValue(): Vector[Any] = {
      take('[')
      val items = Vector.newBuilder[Any]
      if (!takeIf(']')) {
        var more = true
        while (more) {
          items += value()
          more = takeIf(',')
        }
        take(']')
      }
      items.result()
    }

    private def string(): String = {
      take('"')
      val out = new StringBuilder
      while (at < text.length && text.charAt(at) != '"') {
        if (text.charAt(at) == '\\') escape(out) else out += text.charAt(at)
        at += 1
      }
      if (at >= text.length) fail("a closing quote")
      at += 1
      out.result()
    }

    private def escape(out: StringBuilder): Unit = {
      at += 1
      if (at >= text.length) fail("an escaped character")
      text.charAt(at) match {
        case 'n' => out += '\n'
        case 't' => out += '\t'
        case 'r' => out += '\r'
        case 'b' => out += '\b'
        case 'f' => out += '\f'
        case 'u' =>
          val digits = text.slice(at + 1, at + 5)
          if (digits.length < 4 || !digits.forall(Character.digit(_, 16) >= 0)) fail("four hexadecimal digits")
          out += Integer.parseInt(digits, 16).toChar
          at += 4
        case other => out += other
      }
    }

    private def number(): Double = {
      val start = at
      while (at < text.length && "+-.eE0123456789".indexOf(text.charAt(at).toInt) >= 0) at += 1
      text.substring(start, at).toDoubleOption.getOrElse {
        at = start
        fail("a value")
      }
    }
  }
}
