//! The lexer of mapping files, operator descriptors and NNEF graphs.

use crate::error::{Error, Position, Result};

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    /// A name: letters, digits and underscores.
    Name(String),
    /// An integer.
    Int(i64),
    /// A number with a decimal point or an exponent.
    Float(f64),
    /// Text in double or single quotes; there are no escapes.
    Text(String),
    /// Punctuation such as `(`, `<->` or `==`.
    Punctuation(&'static str),
    /// The end of the file.
    End,
}

/// Punctuation. A token comes before its prefixes, so that the longest match is found first.
const PUNCTUATION: [&str; 30] = [
    "<->", "->", "<-", "==", "!=", "<=", ">=", "..", "(", ")", "[", "]", "{", "}", ",", ":", "=", "?", "*", "@", "+",
    "-", "/", "%", "<", ">", ".", "|", "&", ";",
];

/// The tokens of a file with their positions, [`Token::End`] included.
///
/// # Errors
/// A character that begins no token, an unterminated string.
pub(crate) fn tokenize(file: &str, text: &str) -> Result<Vec<(Token, Position)>> {
    let mut out = Vec::new();
    let mut end = Position { line: 1, column: 1 };
    for (number, line) in text.lines().enumerate() {
        let position_of = |rest: &str| {
            let before = &line[..line.len() - rest.len()];
            Position { line: number + 1, column: before.chars().count() + 1 }
        };
        let mut rest = line.trim_start();
        while !rest.is_empty() && !rest.starts_with('#') {
            let position = position_of(rest);
            let error = |message: String| Error::Mapping { file: file.into(), position, message };
            let (token, length) = scan(rest).map_err(error)?;
            out.push((token, position));
            rest = rest[length..].trim_start();
        }
        end = position_of(rest);
    }
    out.push((Token::End, end));
    Ok(out)
}

/// The first token of a non-empty text, and its length.
fn scan(text: &str) -> Result<(Token, usize), String> {
    let span = |f: fn(char) -> bool| text.find(|c: char| !f(c)).unwrap_or(text.len());
    let first = text.chars().next().unwrap_or(' ');
    if first.is_ascii_alphabetic() || first == '_' {
        let n = span(|c| c.is_ascii_alphanumeric() || c == '_');
        return Ok((Token::Name(text[..n].into()), n));
    }
    if first.is_ascii_digit() {
        return number(text);
    }
    if first == '"' || first == '\'' {
        let rest = &text[1..];
        let n = rest.find(first).ok_or_else(|| format!("a string does not end on its line: a {first} is missing"))?;
        return Ok((Token::Text(rest[..n].into()), n + 2));
    }
    match PUNCTUATION.iter().find(|s| text.starts_with(**s)) {
        Some(sign) => Ok((Token::Punctuation(sign), sign.len())),
        None => Err(format!("unexpected character '{first}'")),
    }
}

fn number(text: &str) -> Result<(Token, usize), String> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut n = digits(0);
    let mut is_float = false;
    // `1..` is a range, not a number with a decimal point.
    if bytes.get(n) == Some(&b'.') && bytes.get(n + 1).is_some_and(u8::is_ascii_digit) {
        is_float = true;
        n += 1 + digits(n + 1);
    }
    if matches!(bytes.get(n), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(n + 1), Some(b'+' | b'-')));
        is_float = true;
        n += 1 + sign + digits(n + 1 + sign);
    }
    let error = || format!("'{}' is not a number", &text[..n]);
    if is_float {
        return text[..n].parse().map(|x| (Token::Float(x), n)).map_err(|_| error());
    }
    text[..n].parse().map(|x| (Token::Int(x), n)).map_err(|_| error())
}

/// A cursor over the tokens of a file.
pub(crate) struct Cursor<'a> {
    file: &'a str,
    tokens: Vec<(Token, Position)>,
    next: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the beginning of a file.
    ///
    /// # Errors
    /// See [`tokenize`].
    pub(crate) fn new(file: &'a str, text: &str) -> Result<Cursor<'a>> {
        Ok(Cursor { file, tokens: tokenize(file, text)?, next: 0 })
    }

    /// The next token.
    pub(crate) fn peek(&self) -> &Token {
        self.peek_at(0)
    }

    /// The token after `ahead` others.
    pub(crate) fn peek_at(&self, ahead: usize) -> &Token {
        &self.tokens[(self.next + ahead).min(self.tokens.len() - 1)].0
    }

    /// The position of the next token.
    pub(crate) fn position(&self) -> Position {
        self.tokens[self.next].1
    }

    /// The line of the last token taken.
    pub(crate) fn last_line(&self) -> usize {
        self.tokens[self.next.saturating_sub(1)].1.line
    }

    /// Takes the next token.
    pub(crate) fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    /// An error at the next token.
    pub(crate) fn error(&self, message: impl Into<String>) -> Error {
        self.error_at(self.position(), message)
    }

    /// An error at a position.
    pub(crate) fn error_at(&self, position: Position, message: impl Into<String>) -> Error {
        Error::Mapping { file: self.file.into(), position, message: message.into() }
    }

    /// Takes the next token if it is this punctuation.
    pub(crate) fn accept(&mut self, punctuation: &str) -> bool {
        let is_next = matches!(self.peek(), Token::Punctuation(s) if *s == punctuation);
        if is_next {
            self.take();
        }
        is_next
    }

    /// Takes the next token if it is this name.
    pub(crate) fn accept_name(&mut self, name: &str) -> bool {
        let is_next = matches!(self.peek(), Token::Name(n) if n == name);
        if is_next {
            self.take();
        }
        is_next
    }

    /// Takes the next token, which must be this punctuation.
    ///
    /// # Errors
    /// The next token is something else.
    pub(crate) fn expect(&mut self, punctuation: &str) -> Result<()> {
        if self.accept(punctuation) { Ok(()) } else { Err(self.unexpected(&format!("'{punctuation}'"))) }
    }

    /// Takes the next token, which must be a name; `what` describes it in the error.
    ///
    /// # Errors
    /// The next token is something else.
    pub(crate) fn name(&mut self, what: &str) -> Result<String> {
        match self.peek().clone() {
            Token::Name(name) => {
                self.take();
                Ok(name)
            }
            _ => Err(self.unexpected(what)),
        }
    }

    /// Takes the next token, which must be an integer; `what` describes it in the error.
    ///
    /// # Errors
    /// The next token is something else.
    pub(crate) fn int(&mut self, what: &str) -> Result<i64> {
        match *self.peek() {
            Token::Int(i) => {
                self.take();
                Ok(i)
            }
            _ => Err(self.unexpected(what)),
        }
    }

    /// The error for an unexpected token.
    pub(crate) fn unexpected(&self, expected: &str) -> Error {
        let found = match self.peek() {
            Token::Name(name) => format!("'{name}'"),
            Token::Int(i) => i.to_string(),
            Token::Float(x) => x.to_string(),
            Token::Text(t) => format!("\"{t}\""),
            Token::Punctuation(s) => format!("'{s}'"),
            Token::End => "the end of the file".into(),
        };
        self.error(format!("{expected} was expected, but {found} was found"))
    }
}
