//! The lexer of mapping files, operator descriptors and NNEF graphs.

use crate::error::{Error, Position, Result};

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A name: letters, digits and underscores.
    Name(String),
    /// An integer.
    Int(i64),
    /// A number with a decimal point or an exponent.
    Float(f64),
    /// Text in double or single quotes; there are no escapes.
    Text(String),
    /// Punctuation such as `(`, `<->` or `==`.
    Sign(&'static str),
    /// The end of the file.
    End,
}

/// Punctuation, longer tokens before their prefixes.
const SIGNS: [&str; 30] = [
    "<->", "->", "<-", "==", "!=", "<=", ">=", "..", "(", ")", "[", "]", "{", "}", ",", ":", "=", "?", "*", "@", "+",
    "-", "/", "%", "<", ">", ".", "|", "&", ";",
];

/// The tokens of a file with their positions, [`Token::End`] included.
///
/// # Errors
/// A character that begins no token, an unterminated string.
pub fn words(file: &str, text: &str) -> Result<Vec<(Token, Position)>> {
    let mut out = Vec::new();
    let mut end = Position { line: 1, column: 1 };
    for (number, line) in text.lines().enumerate() {
        let at = |rest: &str| {
            let before = &line[..line.len() - rest.len()];
            Position { line: number + 1, column: before.chars().count() + 1 }
        };
        let mut rest = line.trim_start();
        while !rest.is_empty() && !rest.starts_with('#') {
            let position = at(rest);
            let error = |message: String| Error::Mapping { file: file.into(), position, message };
            let (token, length) = word(rest).map_err(error)?;
            out.push((token, position));
            rest = rest[length..].trim_start();
        }
        end = at(rest);
    }
    out.push((Token::End, end));
    Ok(out)
}

/// The first token of a non-empty text, and its length.
fn word(text: &str) -> Result<(Token, usize), String> {
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
        let n = rest.find(first).ok_or_else(|| format!("a text does not end on its line: a {first} is missing"))?;
        return Ok((Token::Text(rest[..n].into()), n + 2));
    }
    match SIGNS.iter().find(|s| text.starts_with(**s)) {
        Some(sign) => Ok((Token::Sign(sign), sign.len())),
        None => Err(format!("no word begins with '{first}'")),
    }
}

fn number(text: &str) -> Result<(Token, usize), String> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut n = digits(0);
    let mut float = false;
    // `1..` is a range, not a number with a decimal point.
    if bytes.get(n) == Some(&b'.') && bytes.get(n + 1).is_some_and(u8::is_ascii_digit) {
        float = true;
        n += 1 + digits(n + 1);
    }
    if matches!(bytes.get(n), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(n + 1), Some(b'+' | b'-')));
        float = true;
        n += 1 + sign + digits(n + 1 + sign);
    }
    let bad = |_| format!("'{}' is not a number", &text[..n]);
    if float {
        return text[..n]
            .parse()
            .map(|x| (Token::Float(x), n))
            .map_err(|_| format!("'{}' is not a number", &text[..n]));
    }
    text[..n].parse().map(|x| (Token::Int(x), n)).map_err(bad)
}

/// A cursor over the tokens of a file.
pub struct Cursor<'a> {
    file: &'a str,
    words: Vec<(Token, Position)>,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the beginning of a file.
    ///
    /// # Errors
    /// Those of [`words`].
    pub fn new(file: &'a str, text: &str) -> Result<Cursor<'a>> {
        Ok(Cursor { file, words: words(file, text)?, at: 0 })
    }

    /// The next token.
    pub fn peek(&self) -> &Token {
        self.peek_at(0)
    }

    /// The token after `ahead` others.
    pub fn peek_at(&self, ahead: usize) -> &Token {
        &self.words[(self.at + ahead).min(self.words.len() - 1)].0
    }

    /// The position of the next token.
    pub fn position(&self) -> Position {
        self.words[self.at].1
    }

    /// The line of the token before the next one.
    pub fn last_line(&self) -> usize {
        self.words[self.at.saturating_sub(1)].1.line
    }

    /// Takes the next token.
    pub fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.at = (self.at + 1).min(self.words.len() - 1);
        token
    }

    /// An error at the next token.
    pub fn error(&self, message: impl Into<String>) -> Error {
        self.error_at(self.position(), message)
    }

    /// An error at a position.
    pub fn error_at(&self, position: Position, message: impl Into<String>) -> Error {
        Error::Mapping { file: self.file.into(), position, message: message.into() }
    }

    /// Takes the next token if it is this punctuation.
    pub fn takes(&mut self, sign: &str) -> bool {
        let hit = matches!(self.peek(), Token::Sign(s) if *s == sign);
        if hit {
            self.take();
        }
        hit
    }

    /// Takes the next token if it is this name.
    pub fn takes_name(&mut self, name: &str) -> bool {
        let hit = matches!(self.peek(), Token::Name(n) if n == name);
        if hit {
            self.take();
        }
        hit
    }

    /// Takes the punctuation that must follow.
    ///
    /// # Errors
    /// The next token is something else.
    pub fn expect(&mut self, sign: &str) -> Result<()> {
        if self.takes(sign) { Ok(()) } else { Err(self.unexpected(&format!("'{sign}'"))) }
    }

    /// Takes the name that must follow.
    ///
    /// # Errors
    /// The next token is something else.
    pub fn name(&mut self, what: &str) -> Result<String> {
        match self.peek().clone() {
            Token::Name(name) => {
                self.take();
                Ok(name)
            }
            _ => Err(self.unexpected(what)),
        }
    }

    /// Takes the integer that must follow.
    ///
    /// # Errors
    /// The next token is something else.
    pub fn int(&mut self, what: &str) -> Result<i64> {
        match *self.peek() {
            Token::Int(i) => {
                self.take();
                Ok(i)
            }
            _ => Err(self.unexpected(what)),
        }
    }

    /// The error for an unexpected token.
    pub fn unexpected(&self, expected: &str) -> Error {
        let found = match self.peek() {
            Token::Name(name) => format!("'{name}'"),
            Token::Int(i) => i.to_string(),
            Token::Float(x) => x.to_string(),
            Token::Text(t) => format!("\"{t}\""),
            Token::Sign(s) => format!("'{s}'"),
            Token::End => "the end of the file".into(),
        };
        self.error(format!("{expected} was expected, but {found} was found"))
    }
}
