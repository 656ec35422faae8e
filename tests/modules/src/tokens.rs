//! The tokens of Rust and Scala sources, in as much detail as name resolution needs.

/// The words and punctuation of a source, without comments, strings and characters. `::` is one token.
pub(crate) fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let len = match c {
            _ if c.is_whitespace() => c.len_utf8(),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => string(rest),
            '\'' => character(rest),
            _ if c.is_alphanumeric() || c == '_' => {
                let word = &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())];
                match raw_string(&rest[word.len()..]).filter(|_| matches!(word, "r" | "br" | "cr")) {
                    Some(len) => word.len() + len,
                    None => {
                        tokens.push(word);
                        word.len()
                    }
                }
            }
            _ => {
                let len = if rest.starts_with("::") { 2 } else { c.len_utf8() };
                tokens.push(&rest[..len]);
                len
            }
        };
        rest = &rest[len..];
    }
    tokens
}

/// The length of a comment, including nested comments.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        match rest {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return at + 2,
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    text.len()
}

/// The length of a string: one in triple quotes, as in Scala, or one with escapes.
fn string(text: &str) -> usize {
    if let Some(inner) = text.strip_prefix("\"\"\"") {
        return inner.find("\"\"\"").map_or(text.len(), |end| end + 6);
    }
    let mut is_escaped = false;
    let end = text[1..].find(|c| {
        let ends = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 2)
}

/// The length of a raw string after its `r`.
fn raw_string(text: &str) -> Option<usize> {
    let hashes = text.find(|c| c != '#')?;
    let inner = text[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(hashes + 1 + inner.find(&end)? + end.len())
}

/// The length of a character, or of the quote of a lifetime.
fn character(text: &str) -> usize {
    let mut chars = text[1..].char_indices();
    match chars.next() {
        Some((_, '\\')) => text[3..].find('\'').map_or(text.len(), |end| end + 4),
        Some((_, c)) if text[1 + c.len_utf8()..].starts_with('\'') => c.len_utf8() + 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_left_out() {
        let text = "a::b /* c /* d */ e */ \"f\\\" g\" r#\"h\" i\"# 'j' '\\'' 'k: l // m\n\"\"\"n \" o\"\"\" p.q";
        assert_eq!(tokens(text), ["a", "::", "b", "k", ":", "l", "p", ".", "q"]);
    }
}
