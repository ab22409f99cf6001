//! One Rust source file, parsed once for all checks.
//!
//! Checks look at tokens, not at text, so that a comment may name what the code may not; only rules
//! about comments (`SAFETY`, leftovers) look at the text.

use super::{Finding, Rule};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeSet;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A token with its line, counted from 1.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) line: usize,
    pub(crate) kind: Kind,
}

/// The kinds of token that the checks tell apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ident(String),
    /// The content of a string or byte string literal.
    Text(String),
    /// An integer literal.
    Integer(u64),
    /// Punctuation, a bracket, or a literal of another kind.
    Other(char),
}

/// A function and where it stands.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// Lines between the braces; none for a declaration.
    pub(crate) body_lines: usize,
    /// Whether one of its parameters is a tuple.
    pub(crate) takes_tuple: bool,
}

/// A parsed source file.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// Relative to the repository's root.
    pub(crate) path: String,
    pub(crate) lines: Vec<String>,
    pub(crate) tokens: Vec<Token>,
    pub(crate) functions: Vec<Function>,
    pub(crate) has_module_doc: bool,
    test_lines: BTreeSet<usize>,
}

impl SourceFile {
    /// Parses `text`; a finding when it is not Rust.
    pub(crate) fn parse(path: &str, text: &str) -> Result<Self, Finding> {
        let broken = |line: usize, error: &dyn std::fmt::Display| {
            Finding::new(path, line, Rule::Syntax, format!("does not parse: {error}"))
        };
        let file = syn::parse_file(text).map_err(|error| broken(error.span().start().line, &error))?;
        let stream: TokenStream = text.parse().map_err(|error| broken(1, &error))?;
        let mut tokens = Vec::new();
        flatten(stream, &mut tokens);
        let mut outline = Outline::default();
        outline.visit_file(&file);
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if is_test_path(path) {
            outline.test_lines.extend(1..=lines.len());
        }
        Ok(Self {
            path: path.to_owned(),
            lines,
            tokens,
            functions: outline.functions,
            has_module_doc: file.attrs.iter().any(is_inner_doc),
            test_lines: outline.test_lines,
        })
    }

    /// The crate the file belongs to, or the name of its top directory when it is in none.
    pub(crate) fn crate_name(&self) -> &str {
        crate_of(&self.path)
    }

    /// Whether the line is compiled for tests only.
    pub(crate) fn is_test_line(&self, line: usize) -> bool {
        self.test_lines.contains(&line)
    }

    /// Tokens that are part of the product.
    pub(crate) fn product_tokens(&self) -> impl Iterator<Item = &Token> {
        self.tokens.iter().filter(|token| !self.is_test_line(token.line))
    }

    /// Whether the file is the root of a library or of a program.
    pub(crate) fn is_crate_root(&self) -> bool {
        self.path.ends_with("/src/lib.rs") || self.path.ends_with("/src/main.rs") || self.path.contains("/src/bin/")
    }
}

/// The crate that owns a path: `crates/<name>/…`, `fuzz/targets/…` and `xtask/…`.
pub(crate) fn crate_of(path: &str) -> &str {
    let mut parts = path.split('/');
    match (parts.next(), parts.next()) {
        (Some("crates"), Some(name)) => name,
        (Some("fuzz"), _) => "fuzz-targets",
        (Some(top), _) => top,
        (None, _) => path,
    }
}

/// Files that only tests compile, by the places where cargo and this project put them.
fn is_test_path(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.split('/').any(|part| part == "tests" || part == "benches")
        || matches!(name, "tests.rs" | "testing.rs")
        || name.ends_with("_tests.rs")
}

fn is_inner_doc(attribute: &syn::Attribute) -> bool {
    matches!(attribute.style, syn::AttrStyle::Inner(_)) && attribute.path().is_ident("doc")
}

/// Appends all tokens in order, entering groups and leaving documentation out.
fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => flatten_group(&group, tokens),
            TokenTree::Ident(ident) => tokens.push(Token {
                line,
                kind: Kind::Ident(ident.to_string()),
            }),
            TokenTree::Punct(punct) => tokens.push(Token {
                line,
                kind: Kind::Other(punct.as_char()),
            }),
            TokenTree::Literal(literal) => tokens.push(Token {
                line,
                kind: literal_kind(literal),
            }),
        }
    }
}

fn flatten_group(group: &proc_macro2::Group, tokens: &mut Vec<Token>) {
    let after_hash = tokens
        .last()
        .is_some_and(|token| matches!(token.kind, Kind::Other('#' | '!')));
    if after_hash && group.delimiter() == Delimiter::Bracket && begins_with_doc(group) {
        return;
    }
    let (open, close) = match group.delimiter() {
        Delimiter::Parenthesis => ('(', ')'),
        Delimiter::Brace => ('{', '}'),
        Delimiter::Bracket => ('[', ']'),
        Delimiter::None => (' ', ' '),
    };
    tokens.push(Token {
        line: group.span_open().start().line,
        kind: Kind::Other(open),
    });
    flatten(group.stream(), tokens);
    tokens.push(Token {
        line: group.span_close().start().line,
        kind: Kind::Other(close),
    });
}

fn begins_with_doc(group: &proc_macro2::Group) -> bool {
    matches!(group.stream().into_iter().next(), Some(TokenTree::Ident(ident)) if ident == "doc")
}

fn literal_kind(literal: proc_macro2::Literal) -> Kind {
    match syn::Lit::new(literal) {
        syn::Lit::Str(text) => Kind::Text(text.value()),
        syn::Lit::ByteStr(bytes) => Kind::Text(String::from_utf8_lossy(&bytes.value()).into_owned()),
        syn::Lit::Int(number) => number.base10_parse().map_or(Kind::Other('0'), Kind::Integer),
        _ => Kind::Other('0'),
    }
}

/// Collects functions and the lines of test code.
#[derive(Default)]
struct Outline {
    functions: Vec<Function>,
    test_lines: BTreeSet<usize>,
}

impl Outline {
    fn note_test(&mut self, attributes: &[syn::Attribute], item: &impl Spanned) {
        if attributes.iter().any(marks_test) {
            let span = item.span();
            self.test_lines.extend(span.start().line..=span.end().line);
        }
    }

    fn note_function(&mut self, signature: &syn::Signature, block: Option<&syn::Block>) {
        let lines = |block: &syn::Block| {
            let brace = block.brace_token.span;
            let (open, close) = (brace.open().start().line, brace.close().start().line);
            close.saturating_sub(open).saturating_sub(1)
        };
        self.functions.push(Function {
            name: signature.ident.to_string(),
            line: signature.ident.span().start().line,
            body_lines: block.map_or(0, lines),
            takes_tuple: signature.inputs.iter().any(is_tuple),
        });
    }
}

impl<'ast> Visit<'ast> for Outline {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.note_test(&item.attrs, item);
        visit::visit_item_mod(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.note_test(&item.attrs, item);
        visit::visit_item_impl(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.note_test(&item.attrs, item);
        self.note_function(&item.sig, Some(&item.block));
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.note_test(&item.attrs, item);
        self.note_function(&item.sig, Some(&item.block));
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.note_function(&item.sig, item.default.as_ref());
        visit::visit_trait_item_fn(self, item);
    }
}

/// A parameter that is a tuple, a reference to one or one that may be missing, or that is taken
/// apart as a tuple.
fn is_tuple(parameter: &syn::FnArg) -> bool {
    let syn::FnArg::Typed(typed) = parameter else {
        return false;
    };
    let pattern = match &*typed.pat {
        syn::Pat::Reference(reference) => &*reference.pat,
        pattern => pattern,
    };
    matches!(pattern, syn::Pat::Tuple(_)) || is_tuple_type(&typed.ty)
}

fn is_tuple_type(kind: &syn::Type) -> bool {
    match kind {
        syn::Type::Reference(reference) => is_tuple_type(&reference.elem),
        syn::Type::Tuple(tuple) => !tuple.elems.is_empty(),
        syn::Type::Path(path) => path.path.segments.last().is_some_and(|last| match &last.arguments {
            syn::PathArguments::AngleBracketed(of) if last.ident == "Option" => {
                let inner = of.args.first();
                matches!(inner, Some(syn::GenericArgument::Type(inner)) if is_tuple_type(inner))
            }
            _ => false,
        }),
        _ => false,
    }
}

/// `#[test]`, `#[tokio::test]` and `#[cfg(test)]`.
fn marks_test(attribute: &syn::Attribute) -> bool {
    let path = attribute.path();
    if path.segments.last().is_some_and(|segment| segment.ident == "test") {
        return true;
    }
    let syn::Meta::List(list) = &attribute.meta else {
        return false;
    };
    let words: Vec<String> = list.tokens.clone().into_iter().map(|token| token.to_string()).collect();
    path.is_ident("cfg") && words.first().is_some_and(|word| word == "test")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documentation_is_no_token() {
        let source =
            SourceFile::parse("crates/net/src/a.rs", "//! kXR_read\n/// kXR_open\nfn f() {}\n").expect("parses");
        assert!(!source.tokens.iter().any(|token| format!("{token:?}").contains("kXR")));
        assert!(source.has_module_doc);
    }

    #[test]
    fn test_modules_are_told_from_the_product() {
        let text = "fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n";
        let source = SourceFile::parse("crates/net/src/a.rs", text).expect("parses");
        assert!(!source.is_test_line(1));
        assert!(source.is_test_line(4));
    }

    #[test]
    fn whole_files_can_be_tests() {
        assert!(is_test_path("crates/net/tests/tls.rs"));
        assert!(is_test_path("crates/net/src/tls/tests.rs"));
        assert!(is_test_path("crates/net/src/stream/testing.rs"));
        assert!(!is_test_path("crates/testkit/src/lib.rs"));
    }

    #[test]
    fn what_is_not_rust_is_a_finding_with_its_line() {
        let finding = SourceFile::parse("a.rs", "fn f() {}\nfn fn\n").expect_err("does not parse");
        assert_eq!((finding.rule, finding.line), (Rule::Syntax, 2));
    }
}
