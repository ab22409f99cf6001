//! A made-up section: one declaration gives it parsing, manual, reload and a list of files.

use std::path::{Path, PathBuf};

use config::section::{LIVE, NEW_DOOR, RESTART};
use config::{Changes, KeyPath, Purpose, Sections, manual, parse, section, sections};

section! {
    /// Paints the server.
    "paint" false Paint {
        /// How many coats to apply.
        coats: u32 = Some(2) => LIVE;
        /// The file with the recipe of the colour, which is secret.
        recipe_file: Option<PathBuf> = Some(None) => NEW_DOOR.file(Purpose::Secret, "the recipe");
        /// Whether to apply a primer first.
        primer: bool = Some(true) => RESTART;
    }
}

section! {
    /// A brush. There may be several.
    "brush" true Brush {
        /// Its width.
        width: u32 = None => LIVE;
    }
}

sections! {
    /// Everything about paint.
    Made {
        paint: Paint;
        brushes: Vec<Brush>;
    }
    beside {}
}

fn read(text: &str) -> Result<Made, Vec<String>> {
    parse(text, Path::new("/etc"), "c.toml", |_, _, _, _| {})
        .map_err(|faults| faults.0.iter().map(config::Mistake::to_string).collect())
}

fn names<'a>(places: impl Iterator<Item = &'a KeyPath>) -> Vec<String> {
    places.map(KeyPath::name).collect()
}

#[test]
fn it_is_parsed_with_defaults_faults_and_suggestions() {
    let made = read("[paint]\nrecipe_file = \"recipe\"\n[[brush]]\nwidth = 3\n").unwrap();
    assert_eq!((made.paint.coats, made.paint.primer), (2, true));
    assert_eq!(made.paint.recipe_file.as_deref(), Some(Path::new("/etc/recipe")));
    assert_eq!(made.brushes.len(), 1);
    let faults = read("[paint]\ncoat = 1\nprimer = 3\n[[brush]]\n[limits]\n").unwrap_err();
    assert_eq!(
        faults,
        [
            "c.toml:2: unknown key \"coat\" in [paint]; did you mean \"coats\"?",
            "c.toml:3: primer: expected true or false, found integer",
            "c.toml:4: the key \"width\" is missing in this section",
            "c.toml:5: unknown section \"limits\"; there are paint, brush",
        ]
    );
}

#[test]
fn its_manual_says_when_each_key_takes_effect() {
    let text = manual::tables(Made::SECTIONS);
    for line in [
        "## [paint]\n\nPaints the server.",
        "| `coats` | number | `2` | at once | How many coats to apply. |",
        "| `recipe_file` | file name | not set | new connections |",
        "| `primer` | true or false | `true` | restart |",
        "## [[brush]]",
        "| `width` | number | must be given | at once |",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn a_reload_treats_each_key_as_it_says() {
    let old = read("[paint]\nrecipe_file = \"recipe\"\n").unwrap();
    let change = |text: &str, touched: &[PathBuf]| {
        let mut fresh = read(text).unwrap();
        let changes = Changes::new(&old, &fresh, touched);
        fresh.keep_fixed(&old);
        (fresh, changes)
    };
    let recipe = "[paint]\nrecipe_file = \"recipe\"\n";
    let (fresh, changes) = change(&format!("{recipe}coats = 3\nprimer = false\n"), &[]);
    assert_eq!(names(changes.ignored()), ["paint.primer"]);
    assert!(!changes.need_new_door() && changes.concern("paint") && !changes.concern("brush"));
    assert_eq!((fresh.paint.coats, fresh.paint.primer), (3, true));
    let (fresh, changes) = change("[paint]\nrecipe_file = \"other\"\n", &[]);
    assert!(changes.need_new_door());
    assert_eq!(fresh.paint.recipe_file.as_deref(), Some(Path::new("/etc/other")));
    let (_, changes) = change(recipe, &[PathBuf::from("/etc/recipe")]);
    assert!(changes.need_new_door(), "the secret itself has changed");
    let (_, changes) = change(&format!("{recipe}[[brush]]\nwidth = 1\n"), &[]);
    assert!(changes.concern("brush") && !changes.need_new_door());
}

#[test]
fn its_files_are_known_with_their_purpose() {
    let made = read("[paint]\nrecipe_file = \"recipe\"\n").unwrap();
    let files = made.files();
    assert_eq!(files.len(), 1);
    assert_eq!(
        (files[0].path.as_path(), files[0].what),
        (Path::new("/etc/recipe"), "the recipe")
    );
    assert_eq!(files[0].place.name(), "paint.recipe_file");
    assert!(files[0].purpose.is_secret() && files[0].purpose.is_watched());
    assert!(read("").unwrap().files().is_empty());
}
