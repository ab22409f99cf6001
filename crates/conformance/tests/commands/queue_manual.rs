//! The queue's manual, word by word: its first five minutes are played, and each command of our
//! client in it is one that the program takes.

use std::fs;
use std::path::Path;

use conformance::{Lab, is_whole, run};
use testkit::{available, require};

use crate::readme::{Places, steps};

fn manual() -> String {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/queue.md");
    fs::read_to_string(manual).expect("the manual")
}

#[test]
fn the_first_five_minutes_work_word_by_word() {
    let prepared = require("sh").and_then(|_| Places::new(Lab::new("queue-manual")?, &[8080, 8081, 8446]));
    let Some(mut places) = available("the_first_five_minutes_work_word_by_word", prepared) else {
        return;
    };
    let listen = places.adapted("127.0.0.1:8446");
    let mut servers = Vec::new();
    for mut step in steps(&manual(), "The first five minutes").into_iter().flatten() {
        if step.command.starts_with("kill ") {
            continue;
        }
        // The manual uses the port that is the default.
        step.command = step
            .command
            .replace("queue serve", &format!("queue serve --listen {listen}"));
        servers.extend(places.play(&step));
    }
    assert_eq!(servers.len(), 3);
    let picture = fs::read(places.here.join("first/picture.jpg")).expect("the picture");
    for copy in ["second/picture.jpg", "second/again.jpg"] {
        assert!(is_whole(&places.here.join(copy), &picture), "{copy}");
    }
}

#[test]
fn each_command_of_the_manual_is_understood() {
    let Some(lab) = available("each_command_of_the_manual_is_understood", Lab::new("queue-commands")) else {
        return;
    };
    let here = lab.fresh("here");
    fs::create_dir_all(&here).expect("a directory");
    fs::write(here.join("list.txt"), "https://a/f https://b/f\n").expect("a list");
    let text = manual();
    let blocks = text
        .split("```sh\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let lines = blocks.flat_map(str::lines).map(str::trim);
    let commands: Vec<&str> = lines.filter(|line| line.starts_with("crossload queue ")).collect();
    assert!(commands.len() > 15, "{commands:?}");
    for line in commands {
        let words = line.split(" #").next().unwrap_or_default().split_whitespace().skip(1);
        let words: Vec<&str> = words
            .map(|word| if word == "JOB" { "6d9c1f0e" } else { word })
            .collect();
        let mut program = lab.client(&words).expect("built");
        // Nothing answers there: what is left is a mistake in the line itself.
        program.env("CROSSLOAD_QUEUE", "http://127.0.0.1:1").current_dir(&here);
        let run = run(&program);
        let is_understood = run.code == Some(112) || run.stderr.contains("Cannot connect");
        assert!(is_understood || words[1] == "delegate", "{line}: {}", run.said());
    }
}
