//! Compares the declarations of the generated header with MXNet 1.9.1's, each parameter by its type.

use std::collections::BTreeMap;

/// MXNet's declarations, one per line: kind, name, definition.
const RELEASED: &str = include_str!("../mxnet-1.9.1.tsv");

/// Accepted differences in the names of types: handles other than arrays, and function pointers. Packed functions here use no DLPack type,
/// so that programs can include DLPack's own header.
const EQUAL_TYPES: [(&str, &str); 3] = [
    ("MXCachedOpRegisterOpHook\tint (NDArrayHandle handle", "MXCachedOpRegisterOpHook\tint (CachedOpHandle handle"),
    ("int (**callbacks)(void)", "MXGenericCallback *callbacks"),
    (" DLDataType v_type;", ""),
];

/// Functions, types and enumerations by name, in a form in which equal interfaces have equal texts.
type Declarations = BTreeMap<String, String>;

/// Text without comments, preprocessor lines and `MXNET_DLL`.
fn code(header: &str) -> String {
    let lines = header.lines().filter(|line| !line.starts_with('#'));
    let text: Vec<_> = lines.map(|line| line.split("//").next().unwrap_or_default()).collect();
    let mut text = text.join(" ").replace("MXNET_DLL", "").replace("extern \"C\" {", "");
    while let (Some(start), Some(end)) = (text.find("/*"), text.find("*/")) {
        text.replace_range(start..end + 2, "");
    }
    text
}

/// Words and punctuation in a normal form: without `struct` and `union`, and with one name for each scalar type.
fn tokens(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut in_word = false;
    for c in text.chars() {
        let is_word = c.is_alphanumeric() || c == '_';
        match found.last_mut().filter(|_| is_word && in_word) {
            Some(word) => word.push(c),
            None if c.is_whitespace() => {}
            None => found.push(c.to_string()),
        }
        in_word = is_word;
    }
    found.retain(|token| token != "struct" && token != "union");
    for token in &mut found {
        let scalar = match token.as_str() {
            "mx_uint" | "nn_uint" | "unsigned" => "uint32_t",
            "mx_float" => "float",
            "dim_t" => "int64_t",
            _ => continue,
        };
        *token = scalar.to_string();
    }
    // `unsigned int` is one type.
    let mut previous = String::new();
    found.retain(|token| std::mem::replace(&mut previous, token.clone()) != "uint32_t" || token != "int");
    found
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The type of `const char *name`: without the name, the constness of the value itself, and with `const` before what it qualifies.
fn parameter(text: &str) -> String {
    let mut words = tokens(text);
    // Arrays are passed as pointers.
    if let Some(bracket) = words.iter().position(|t| t == "[") {
        words.splice(bracket.., ["*".to_string()]);
        let name = words.remove(bracket - 1);
        assert!(is_name(&name), "{text}: an array without a name");
    }
    let names = words.iter().filter(|t| is_name(t) && *t != "const").count();
    if names > 1 {
        let name = words.iter().rposition(|t| is_name(t)).expect("there are two");
        words.remove(name);
    }
    if words.get(1).is_some_and(|t| t == "const") {
        words.swap(0, 1);
    }
    let is_pointer = words.iter().any(|t| t == "*");
    words.retain(|t| is_pointer || t != "const");
    words.join(" ")
}

/// The types of `int a, const char *b`.
fn parameters(list: &str) -> String {
    let types: Vec<_> = list.split(',').map(parameter).filter(|t| !t.is_empty() && t != "void").collect();
    types.join(", ")
}

/// A function or pointer to functions: `int (char *, int)`.
fn function(result: &str, list: &str) -> String {
    format!("{} ({})", tokens(result).join(" "), parameters(list))
}

/// The constants of an enumeration with their values.
fn constants(body: &str) -> String {
    let mut next = 0;
    let named = body.split(',').filter(|item| !item.trim().is_empty()).map(|item| {
        let (name, value) = item.split_once('=').unwrap_or((item, ""));
        if !value.is_empty() {
            next = value.trim().trim_end_matches('U').parse().expect("a number");
        }
        next += 1;
        format!("{} = {}", name.trim(), next - 1)
    });
    named.collect::<Vec<_>>().join(", ")
}

/// The members of a structure: types and names in order.
fn members(body: &str) -> String {
    let members = body.split(';').filter(|m| !m.trim().is_empty());
    members.map(|m| tokens(m).join(" ")).collect::<Vec<_>>().join("; ")
}

/// `int (*Name)(int)` as name and type.
fn callback(text: &str) -> (String, String) {
    let (result, rest) = text.split_once('(').expect("a result");
    let (name, list) = rest.split_once(')').expect("a name in parentheses");
    let list = list.trim().trim_start_matches('(').trim_end_matches(')');
    (name.trim_start_matches('*').trim().to_string(), function(result, list))
}

/// `void *Name` as name and type.
fn alias(text: &str) -> (String, String) {
    let (definition, name) = text.split_at(text.rfind([' ', '*']).map_or(0, |i| i + 1));
    (name.to_string(), tokens(definition).join(" "))
}

/// Removes the parts of `text` that follow `keyword` and end with a semicolon outside braces.
fn take_bodies(text: &mut String, keyword: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    while let Some(start) = text.find(keyword) {
        let open = start + text[start..].find('{').expect("a body");
        let close = open + text[open..].find('}').expect("an end of the body");
        let end = close + text[close..].find(';').expect("an end of the type");
        found.push((text[close + 1..end].trim().to_string(), text[open + 1..close].to_string()));
        text.replace_range(start..=end, "");
    }
    found
}

/// The declarations of a header.
fn declared(header: &str) -> Declarations {
    let mut text = code(header);
    let mut all = Declarations::new();
    all.extend(take_bodies(&mut text, "typedef enum").into_iter().map(|(name, body)| (name, constants(&body))));
    for keyword in ["typedef struct", "typedef union"] {
        all.extend(take_bodies(&mut text, keyword).into_iter().map(|(name, body)| (name, members(&body))));
    }
    for declaration in text.split(';').map(str::trim) {
        let (name, definition) = match declaration.strip_prefix("typedef ") {
            Some(text) if text.contains('(') => callback(text),
            Some(text) => alias(text),
            None => match declaration.split_once('(') {
                Some((head, list)) => {
                    let name = head.rsplit([' ', '*']).next().unwrap_or_default();
                    (name.to_string(), function(head.strip_suffix(name).unwrap_or(head), list.trim_end_matches(')')))
                }
                None => continue,
            },
        };
        all.insert(name, definition);
    }
    all
}

/// What MXNet declares.
fn released() -> Declarations {
    let text = EQUAL_TYPES.iter().fold(RELEASED.to_string(), |text, (from, to)| text.replace(from, to));
    let declarations = text.lines().map(|line| {
        let [kind, name, text] = line.splitn(3, '\t').collect::<Vec<_>>()[..] else { panic!("three columns: {line}") };
        let definition = match kind {
            "function" => {
                let (result, list) = text.split_once('(').expect("parameters");
                function(result, list.trim_end_matches(')'))
            }
            "callback" => callback(text).1,
            "typedef" => alias(text).1,
            "enum" => constants(text),
            "struct" | "union" => members(text),
            _ => panic!("no kind of declaration: {line}"),
        };
        (name.to_string(), definition)
    });
    declarations.collect()
}

/// Each declaration of MXNet that the header lacks or has with another type.
fn differences(header: &str) -> Vec<String> {
    let own = declared(header);
    let compare = |(name, expected): (String, String)| match own.get(&name) {
        Some(found) if *found == expected => None,
        Some(found) => Some(format!("{name}: MXNet has `{expected}`, the header `{found}`")),
        None => Some(format!("{name}: missing")),
    };
    released().into_iter().filter_map(compare).collect()
}

#[test]
fn the_header_has_the_types_of_mxnet() {
    let header = std::fs::read_to_string(super::header_path()).unwrap();
    assert_eq!(differences(&header), Vec::<String>::new());
}

#[test]
fn another_parameter_count_order_or_constness_is_a_difference() {
    let header = std::fs::read_to_string(super::header_path()).unwrap();
    let changes = [
        ("MXAutogradSetIsRecording(int is_recording, int *prev)", "MXAutogradSetIsRecording(int is_recording)"),
        (
            "MXAutogradSetIsRecording(int is_recording, int *prev)",
            "MXAutogradSetIsRecording(int *prev, int is_recording)",
        ),
        ("MXAutogradIsRecording(bool *curr)", "MXAutogradIsRecording(int *curr)"),
        ("MXAutogradIsRecording(bool *curr)", "MXAutogradIsRecording(const bool *curr)"),
        ("kCustomOpForward,", "kCustomOpBackward, kCustomOpForward,"),
        ("int num_callbacks;", "size_t num_callbacks;"),
    ];
    for (from, to) in changes {
        assert!(header.contains(from), "{from}");
        assert_eq!(differences(&header.replacen(from, to, 1)).len(), 1, "{to}");
    }
}
