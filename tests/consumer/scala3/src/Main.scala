import scala.compiletime.testing.{typeCheckErrors, typeChecks}

import org.apache.mxnet.*

/** Checks which programs compile, and runs those that both versions of Scala share. */
@main def consumer(): Unit = {
  val x = Symbol.Variable("x")
  val known: "relu" = "relu"
  inline val inlined = "relu"

  assert(typeChecks("""Symbol.api.Activation(data = x, act_type = "relu")"""))
  assert(typeChecks("""Symbol.api.Activation(x, known)"""))
  assert(typeChecks("""Symbol.api.Activation(x, inlined)"""))
  assert(typeChecks("""val either: "relu" | "tanh" = "relu"; Symbol.api.Activation(x, either)"""))
  assert(typeChecks("""Symbol.api.LeakyReLU(data = x, act_type = "elu")"""))
  assert(typeChecks("""Symbol.api.LeakyReLU(data = x, act_type = Some("elu"))"""))
  assert(typeChecks("""Symbol.api.LeakyReLU(x, act_type = Option("elu"))"""))

  refused("rleu", typeCheckErrors("""Symbol.api.Activation(data = x, act_type = "rleu")""").map(_.message))
  refused("rleu", typeCheckErrors("""NDArray.api.Activation(NDArray.ones(1), "rleu")""").map(_.message))
  refused("rleu", typeCheckErrors("""val wrong: "rleu" = "rleu"; Symbol.api.Activation(x, wrong)""").map(_.message))
  refused("rleu", typeCheckErrors("""val wrong: "relu" | "rleu" = "relu"; Symbol.api.Activation(x, wrong)""").map(_.message))
  refused("rleu", typeCheckErrors("""Symbol.api.LeakyReLU(data = x, act_type = "rleu")""").map(_.message))
  refused("rleu", typeCheckErrors("""Symbol.api.LeakyReLU(data = x, act_type = Some("rleu"))""").map(_.message))
  refused("rleu", typeCheckErrors("""Symbol.api.LeakyReLU(data = x, act_type = Option("rleu"))""").map(_.message))
  refused("flaot32", typeCheckErrors("""Symbol.api.one_hot(x, depth = 3, dtype = "flaot32")""").map(_.message))

  assert(!typeCheckErrors("""Symbol.api.Activation(data = 3, act_type = "relu")""").exists(_.message.contains("EngineDefault")))
  assert(!typeChecks("""Symbol.api.Activation(dat = x, act_type = "relu")"""))
  assert(!typeChecks("""Symbol.api.FullyConnected(data = x, num_hidden = "8")"""))

  CallStyles.run()
  FirstProgram.main(Array())
}

/** Fails unless the compiler's only message says that the text is not one of the values. */
def refused(text: String, messages: List[String]): Unit = {
  val expected = s"'$text' is not one of the values this argument takes: "
  assert(messages.size == 1 && messages.head.startsWith(expected), messages)
}
