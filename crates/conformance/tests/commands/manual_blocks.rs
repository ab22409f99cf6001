//! The commands in the manual: fenced blocks of shell, each with a mark that says where it runs.
//!
//! `<!-- run: SCENE -->` runs it among the servers of a scene, `<!-- run: SCENE, exit 0 or 1 -->`
//! with another exit code, `<!-- run: by TEST -->` names the test that runs it, and `<!-- run: no:
//! REASON -->` says why none does. `<!-- run page: … -->` holds for all blocks below it without a
//! mark of their own. A block without any is a fault, so that none is left out unnoticed.

use crate::readme::Step;

/// Where a block runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Among the servers of this scene; its last command ends with one of these exit codes.
    Scene { name: String, exits: Vec<i32> },
    /// In this other test.
    Test(String),
    /// Nowhere, for this reason.
    Nowhere(String),
}

/// A fenced block.
#[derive(Debug)]
pub(crate) struct Block {
    /// Its line in the document.
    pub(crate) line: usize,
    pub(crate) place: Place,
    /// The commands; a block of `sh` is one, a block of `console` has one for each prompt.
    pub(crate) steps: Vec<Step>,
}

/// The blocks of shell in a document.
///
/// # Errors
/// The lines with a block that has no mark, or one that cannot be read.
pub(crate) fn blocks(text: &str) -> Result<Vec<Block>, Vec<String>> {
    let (mut found, mut faults) = (Vec::new(), Vec::new());
    let (mut mark, mut page): (Option<&str>, Option<&str>) = (None, None);
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let bare = line.trim();
        if let Some(words) = bare
            .strip_prefix("<!-- run: ")
            .and_then(|rest| rest.strip_suffix(" -->"))
        {
            mark = Some(words);
            continue;
        }
        if let Some(words) = bare
            .strip_prefix("<!-- run page: ")
            .and_then(|rest| rest.strip_suffix(" -->"))
        {
            page = Some(words);
            continue;
        }
        let Some(kind) = bare.strip_prefix("```") else {
            // A mark is right above its block.
            mark = mark.filter(|_| bare.is_empty());
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let inside = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| line.trim() != "```");
        let content: Vec<&str> = inside.map(|line| line.get(indent..).unwrap_or_default()).collect();
        if !matches!(kind, "sh" | "console") {
            mark = None;
            continue;
        }
        let line = index + 1;
        match mark.take().or(page).map(place) {
            None => faults.push(format!(
                "{line}: a block without a mark: <!-- run: SCENE --> or <!-- run: no: REASON -->"
            )),
            Some(None) => faults.push(format!("{line}: a mark that cannot be read")),
            Some(Some(place)) => found.push(Block {
                line,
                place,
                steps: steps(kind, &content),
            }),
        }
    }
    if faults.is_empty() { Ok(found) } else { Err(faults) }
}

/// Where the words of a mark say that a block runs.
fn place(words: &str) -> Option<Place> {
    if let Some(reason) = words.strip_prefix("no: ") {
        return Some(Place::Nowhere(reason.to_owned()));
    }
    if let Some(test) = words.strip_prefix("by ") {
        return Some(Place::Test(test.to_owned()));
    }
    let (name, exits) = words.split_once(", exit ").unwrap_or((words, "0"));
    let exits: Option<Vec<i32>> = exits.split(" or ").map(|code| code.parse().ok()).collect();
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
    is_name.then_some(Place::Scene {
        name: name.to_owned(),
        exits: exits?,
    })
}

fn steps(kind: &str, content: &[&str]) -> Vec<Step> {
    if kind == "sh" {
        return vec![Step {
            command: content.join("\n"),
            output: Vec::new(),
        }];
    }
    let mut steps: Vec<Step> = Vec::new();
    for line in content {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step {
                command: command.to_owned(),
                output: Vec::new(),
            }),
            (None, Some(step)) => step.output.push((*line).to_owned()),
            (None, None) => {}
        }
    }
    steps
}

#[test]
fn blocks_have_marks_and_steps() {
    let text = "<!-- run: site -->\n```sh\na \\\n  b\n```\n\n<!-- run: site, exit 0 or 2 -->\n```console\n$ c\nout\n$ d\n```\n\
                <!-- run: no: why -->\n\n  ```sh\n  e\n  ```\n<!-- run: by a_test -->\n```sh\nf\n```\n```toml\n[g]\n```\n";
    let blocks = blocks(text).expect("marks");
    let places: Vec<&Place> = blocks.iter().map(|block| &block.place).collect();
    let site = |exits: &[i32]| Place::Scene {
        name: "site".to_owned(),
        exits: exits.to_vec(),
    };
    let expected = [
        &site(&[0]),
        &site(&[0, 2]),
        &Place::Nowhere("why".to_owned()),
        &Place::Test("a_test".to_owned()),
    ];
    assert_eq!(places, expected);
    let steps = |index: usize| -> Vec<(&str, usize)> {
        let steps = blocks[index].steps.iter();
        steps.map(|step| (step.command.as_str(), step.output.len())).collect()
    };
    assert_eq!(steps(0), [("a \\\n  b", 0)]);
    assert_eq!(steps(1), [("c", 1), ("d", 0)]);
    assert_eq!(steps(2), [("e", 0)]);
    assert_eq!(blocks[1].line, 8);
}

#[test]
fn a_page_has_a_mark_for_blocks_without_one() {
    let text = "<!-- run page: no: why -->\n```sh\na\n```\n<!-- run: here -->\n```sh\nb\n```\n";
    let blocks = blocks(text).expect("marks");
    assert_eq!(blocks[0].place, Place::Nowhere("why".to_owned()));
    assert_ne!(blocks[1].place, blocks[0].place);
}

#[test]
fn a_block_without_a_mark_is_a_fault() {
    for text in [
        "```sh\na\n```\n",
        "<!-- run: site -->\nwords\n```sh\na\n```\n",
        "<!-- run: site -->\n```toml\n[a]\n```\n```sh\na\n```\n",
        "<!-- run: site, exit x -->\n```sh\na\n```\n",
        "<!-- run: A B -->\n```console\n$ a\n```\n",
    ] {
        assert_eq!(blocks(text).expect_err(text).len(), 1, "{text}");
    }
}
