//! The shape of a file: function length, parameters, file length, module documentation.

use super::source::SourceFile;
use super::{Finding, Rule};

/// Longest body of a function, in lines between its braces.
const FUNCTION_LINES: usize = 70;
/// Longest body of a test, which may tell a whole story in order.
const TEST_FUNCTION_LINES: usize = 120;
/// Longest file, in lines that are not test code.
const FILE_LINES: usize = 600;

/// Checks one file.
pub(crate) fn check(source: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !source.has_module_doc {
        findings.push(Finding::new(
            &source.path,
            1,
            Rule::ModuleDoc,
            "the file does not begin with a `//!` comment",
        ));
    }
    for function in &source.functions {
        let limit = if source.is_test_line(function.line) {
            TEST_FUNCTION_LINES
        } else {
            FUNCTION_LINES
        };
        if function.body_lines > limit {
            let detail = format!("`{}` has {} lines, limit {limit}", function.name, function.body_lines);
            findings.push(Finding::new(&source.path, function.line, Rule::FunctionLength, detail));
        }
        if function.takes_tuple && !source.is_test_line(function.line) {
            let detail = format!("`{}` takes a tuple", function.name);
            findings.push(Finding::new(&source.path, function.line, Rule::TupleParameters, detail));
        }
    }
    let product_lines = (1..=source.lines.len())
        .filter(|line| !source.is_test_line(*line))
        .count();
    if product_lines > FILE_LINES {
        let detail = format!("{product_lines} lines that are not tests, limit {FILE_LINES}");
        findings.push(Finding::new(&source.path, 1, Rule::FileLength, detail));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;
    use super::*;

    const PATH: &str = "crates/policy/src/a.rs";

    fn function_of(lines: usize, attribute: &str) -> String {
        format!("//! Doc.\n{attribute}\nfn f() {{\n{}}}\n", "    g();\n".repeat(lines))
    }

    #[test]
    fn a_function_may_have_seventy_lines_and_no_more() {
        assert!(findings_in(PATH, &function_of(70, "")).is_empty());
        assert_eq!(findings_in(PATH, &function_of(71, "")), [(Rule::FunctionLength, 3)]);
    }

    #[test]
    fn a_test_may_be_longer() {
        assert!(findings_in(PATH, &function_of(120, "#[test]")).is_empty());
        assert_eq!(
            findings_in(PATH, &function_of(121, "#[test]")),
            [(Rule::FunctionLength, 3)]
        );
    }

    #[test]
    fn methods_count_as_functions() {
        let text = format!("//! Doc.\nimpl A {{\nfn f() {{\n{}}}\n}}\n", "    g();\n".repeat(71));
        assert_eq!(findings_in(PATH, &text), [(Rule::FunctionLength, 3)]);
    }

    #[test]
    fn no_parameter_is_a_tuple() {
        let parameters = [
            "(a, b): (u8, u8)",
            "pair: &(u8, u8)",
            "pair: &mut Option<(u8, u8)>",
            "(a, b): Pair",
            "&(a, b): &Pair",
        ];
        for parameter in parameters {
            let text = format!("//! Doc.\nfn f({parameter}) {{}}\n");
            assert_eq!(findings_in(PATH, &text), [(Rule::TupleParameters, 2)], "{parameter}");
            let declared = format!("//! Doc.\ntrait T {{\nfn f(&self, {parameter});\n}}\n");
            // A method without a body has no pattern but a name.
            if parameter.starts_with("pair") {
                assert_eq!(
                    findings_in(PATH, &declared),
                    [(Rule::TupleParameters, 3)],
                    "{parameter}"
                );
            }
            let test = format!("//! Doc.\n#[cfg(test)]\nmod tests {{\nfn f({parameter}) {{}}\n}}\n");
            assert!(findings_in(PATH, &test).is_empty(), "{parameter}");
        }
        let fine = "//! Doc.\nfn f(a: u8, visit: &(dyn Fn(u8) + Send), pairs: &[(u8, u8)], none: ()) {}\n";
        assert!(findings_in(PATH, fine).is_empty());
    }

    #[test]
    fn only_product_lines_make_a_file_long() {
        let constants = |count: usize| "const A: u8 = 0;\n".repeat(count);
        assert!(findings_in(PATH, &format!("//! Doc.\n{}", constants(599))).is_empty());
        assert_eq!(
            findings_in(PATH, &format!("//! Doc.\n{}", constants(600))),
            [(Rule::FileLength, 1)]
        );
        let tests = format!("//! Doc.\n#[cfg(test)]\nmod tests {{\n{}}}\n", constants(900));
        assert!(findings_in(PATH, &tests).is_empty());
    }

    #[test]
    fn a_file_begins_with_its_purpose() {
        assert_eq!(
            findings_in(PATH, "// Only a comment.\nfn f() {}\n"),
            [(Rule::ModuleDoc, 1)]
        );
    }
}
