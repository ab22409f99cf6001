//! Our pages in Chromium: the report of `crossload bench`, in each kind of load, that of a mesh,
//! and the listing of a directory. Looked at is what a person would see: letters that are cut, too
//! small or on each other, a page that is wider than its window, what is loaded from elsewhere, and
//! what runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use conformance::{CHROMIUM, Endpoint, Lab, bytes, run};
use serde_json::{Value, json};
use testkit::{Result, available, mesh_run, require};

/// A telephone, and a screen.
const WIDTHS_PX: [u32; 2] = [400, 1100];
const DARK: &str = "--blink-settings=preferredColorScheme=0";
const LIGHT: &str = "--blink-settings=preferredColorScheme=1";

struct Site {
    lab: Lab,
    one: Endpoint,
    two: Endpoint,
}

fn site(name: &str) -> Result<Site> {
    require(CHROMIUM)?;
    let lab = Lab::new(name)?;
    let one = Endpoint::Crossload(Box::new(lab.crossload(lab.options("one"))?));
    let two = Endpoint::Crossload(Box::new(lab.crossload(lab.options("two"))?));
    Ok(Site { lab, one, two })
}

impl Site {
    /// The page of a run of `load` against both, and its report.
    #[track_caller]
    fn page(&self, load: &str, options: &[&str], code: i32, more: &[&str]) -> (PathBuf, PathBuf) {
        let directory = self.lab.fresh(load);
        fs::create_dir_all(&directory).expect("a directory");
        let (html, json) = (directory.join("page.html"), directory.join("report.json"));
        let url = |server: &Endpoint| match load {
            "tls" => server.url(""),
            _ => server.clear_url(""),
        };
        let targets = [format!("one={}", url(&self.one)), format!("two={}", url(&self.two))];
        let ca = self.lab.authority().ca_file();
        let files = ["--html", plain(&html), "--json", plain(&json), &targets[0], &targets[1]];
        let arguments = [&["bench", load, "-q", "--cacert", plain(&ca)], options, &files, more].concat();
        let run = run(&self.lab.client(arguments).expect("the client"));
        assert_eq!(run.code, Some(code), "{}", run.said());
        (html, json)
    }

    /// Demands that the page can be read at each width, runs nothing and loads nothing.
    #[track_caller]
    fn can_be_read(&self, page: &Path) -> Value {
        can_be_read(&self.lab, page, WIDTHS_PX)
    }
}

/// Demands that the page can be read at each width, runs nothing and loads nothing. Returns what
/// was found at the last width.
#[track_caller]
fn can_be_read(lab: &Lab, page: &Path, widths_px: [u32; 2]) -> Value {
    let look = |width_px| lab.layout(page, width_px, &[LIGHT]).expect("Chromium");
    // Each is a browser of its own: two at once take half the time.
    let mut all = thread::scope(|scope| {
        let looks = widths_px.map(|width_px| scope.spawn(move || (width_px, look(width_px))));
        looks.map(|look| look.join().expect("a look at the page"))
    });
    for (width_px, found) in &mut all {
        for (what, wanted) in GOOD {
            let seen = found[what].take();
            assert_eq!(
                seen,
                serde_json::from_str::<Value>(wanted).expect("JSON"),
                "{what} at {width_px}"
            );
        }
    }
    let [.., (_, last)] = all;
    last
}

/// What is to be found on each page.
const GOOD: [(&str, &str); 6] = [
    ("small", "[]"),
    ("cut", "[]"),
    ("overlapping", "[]"),
    ("loaded", "[]"),
    ("console", "[]"),
    ("too_wide_px", "0"),
];

fn plain(path: &Path) -> &str {
    path.to_str().expect("plain")
}

// Takes half a minute: eight loads are measured, and Chromium starts sixteen times to look at their
// pages.
#[test]
fn reports_of_all_loads_can_be_read_in_a_browser() {
    let test = "reports_of_all_loads_can_be_read_in_a_browser";
    let Some(site) = available(test, site("browser-loads")) else {
        return;
    };
    let bulk = ["-s", "100KiB", "--volume", "100KiB", "-r", "2"];
    let short = ["-s", "100KiB", "--during", "50ms", "-r", "2"];
    let loads: [(&str, &[&str]); 8] = [
        ("bulk", &[&bulk[..], &["-c", "1,3"]].concat()),
        (
            "metadata",
            &["--files", "20", "--during", "50ms", "-r", "2", "-c", "1,2"],
        ),
        ("mixed", &[&short[..], &["-c", "0,1,2"]].concat()),
        ("overwrite", &["-s", "100KiB", "--files", "1", "-r", "2", "-c", "1,2"]),
        (
            "tls",
            &[&bulk[..], &["-c", "1", "--during", "50ms", "--clients", "1"]].concat(),
        ),
        ("tpc", &[&short[..], &["-c", "1,2", "-n", "1,2"]].concat()),
        (
            "latency",
            &["-s", "100KiB", "-r", "1", "--rtt", "0,5,10", "-n", "1,2,3"],
        ),
        ("vector", &[&short[..], &["-c", "1,2"]].concat()),
    ];
    for (load, options) in loads {
        let (page, json) = site.page(load, options, 0, &[]);
        let found = site.can_be_read(&page);
        let report: Value = serde_json::from_slice(&fs::read(json).expect("a report")).expect("JSON");
        let count = |what: &str| report[what].as_array().map_or(0, Vec::len);
        assert_eq!(found["tables"], count("tables"), "{load}: {found}");
        let plots = found["plots"].as_u64().expect("a number");
        assert!(
            plots >= (count("tables") + count("curves").min(1)) as u64,
            "{load}: {found}"
        );
    }
}

#[test]
fn a_comparison_and_failures_can_be_read_and_light_and_dark_are_as_the_reader_likes() {
    let test = "a_comparison_and_failures_can_be_read_and_light_and_dark_are_as_the_reader_likes";
    let Some(site) = available(test, site("browser-compare")) else {
        return;
    };
    let small = ["-s", "100KiB", "--volume", "100KiB", "-r", "2", "-c", "1,3"];
    let (_, before) = site.page("bulk", &small, 0, &[]);
    // Four columns of figures, and as many of ratios, besides one of a name that is longer than the
    // window.
    let long = format!(
        "a server that has <rather> a long name & is away=http://127.0.0.1:{}/",
        1
    );
    let options = [&small[..], &["--compare", plain(&before)]].concat();
    let (page, _) = site.page("bulk", &options, 1, &[&long]);
    assert_eq!(site.can_be_read(&page)["tables"], 1);
    is_light_or_dark(&site.lab, &page);
}

#[track_caller]
fn is_light_or_dark(lab: &Lab, page: &Path) {
    let brightness = |option: &str| {
        let found = lab.layout(page, 1100, &[option]).expect("Chromium");
        ["ink", "paper"].map(|which| bright(found[which].as_str().unwrap_or_default()))
    };
    let ([ink, paper], [dark_ink, dark_paper]) = (brightness(LIGHT), brightness(DARK));
    assert!(
        ink + 400 < paper && dark_paper + 400 < dark_ink,
        "{ink} {paper} {dark_ink} {dark_paper}"
    );
}

#[test]
fn the_page_of_a_mesh_can_be_read_in_a_browser() {
    let test = "the_page_of_a_mesh_can_be_read_in_a_browser";
    let Some(lab) = available(test, require(CHROMIUM).and_then(|_| Lab::new("browser-mesh"))) else {
        return;
    };
    let mut mesh = mesh_run(12);
    // Longer than a window, without a place to break it; and what a careless page would run.
    mesh.endpoints[2].software = Some(format!("dCache-{}", "9".repeat(200)));
    mesh.endpoints[4].tags = vec!["<img src=x onerror=document.title='run'>".to_owned()];
    let file = lab.file(serde_json::to_string(&mesh).expect("JSON").as_bytes());
    let page = lab.fresh("mesh").with_extension("html");
    let made = ["report", plain(&file), "--html", plain(&page)];
    run(&lab.client(made).expect("the client is built")).failed_with(1);
    let found = can_be_read(&lab, &page, [390, 1440]);
    // All ways together, four ways, endpoints, and each pair of 12.
    assert_eq!(found["tables"], 1 + 4 + 1 + 132, "{found}");
    is_light_or_dark(&lab, &page);
}

/// The sum of red, green and blue in `rgb(1, 2, 3)`.
fn bright(colour: &str) -> u32 {
    let digits = colour.split(|character: char| !character.is_ascii_digit());
    digits.filter_map(|part| part.parse::<u32>().ok()).sum()
}

#[test]
fn what_is_amiss_on_a_page_is_found() {
    let Some(site) = available("what_is_amiss_on_a_page_is_found", site("browser-amiss")) else {
        return;
    };
    let page = site.lab.fresh("amiss").with_extension("html");
    let text = "<title>amiss</title><img src=\"http://www.example.org/from-elsewhere.png\">\
                <div style=\"width:3000px\">wide</div><script>missing()</script>\
                <svg class=\"plot\" viewBox=\"0 0 1000 100\" width=\"300\" overflow=\"visible\">\
                <text x=\"10\" y=\"20\" font-size=\"10\">small</text><text x=\"980\" y=\"20\" font-size=\"60\">cut</text>\
                <text x=\"300\" y=\"60\" font-size=\"60\">one</text><text x=\"310\" y=\"60\" font-size=\"60\">other</text></svg>";
    fs::write(&page, text).expect("a page");
    let found = site.lab.layout(&page, 400, &[]).expect("Chromium");
    assert_eq!(found["small"], json!(["small"]), "{found}");
    assert_eq!(found["cut"], json!(["cut"]), "{found}");
    assert_eq!(found["overlapping"], json!(["one | other"]), "{found}");
    assert_eq!(
        found["loaded"],
        json!(["http://www.example.org/from-elsewhere.png"]),
        "{found}"
    );
    assert!(found["too_wide_px"].as_u64() > Some(1000), "{found}");
    let console = found["console"].as_array().expect("lines");
    assert!(
        console.len() == 1 && console[0].to_string().contains("missing is not defined"),
        "{found}"
    );
}

/// Names that a careless page would run, cut, or lead astray from.
const NAMES: [&str; 9] = [
    "a name with spaces.txt",
    "Übergröße.root",
    "日本",
    "<script>document.title='run'<",
    "<img src=x onerror=document.title='run'>",
    "\" onclick=\"document.title='run'\" x=\"",
    "a?b#c%41&amp;d+e;f",
    "it's",
    "javascript:document.title='run'",
];

#[test]
fn a_directory_is_shown_in_a_browser_and_nothing_on_it_runs() {
    let test = "a_directory_is_shown_in_a_browser_and_nothing_on_it_runs";
    let Some(site) = available(test, site("browser-listing")) else {
        return;
    };
    for name in NAMES {
        site.one.put(&format!("list/{name}"), name.as_bytes());
    }
    for number in 0..1000 {
        site.one
            .put(&format!("list/events-{number:04}.root"), &bytes(10, number));
    }
    let url = site.one.clear_url("list/");
    let seen = site.lab.browse(&url, &[]).expect("Chromium");
    assert!(seen.console.is_empty(), "{:?}", seen.console);
    assert!(seen.document.contains("<title>/data/list</title>"), "{}", seen.document);
    let links: Vec<&str> = seen
        .document
        .split("<th scope=\"row\"><a href=\"")
        .skip(1)
        .filter_map(|rest| rest.split_once('"').map(|(link, _)| link))
        .collect();
    assert_eq!(links.len(), NAMES.len() + 1000, "{}", seen.document);
    // In order, where a person would look for it, and each leads to its file.
    let events: Vec<&&str> = links.iter().filter(|link| link.contains("events-")).collect();
    assert!(events.is_sorted(), "{events:?}");
    let odd = links.iter().filter(|link| !link.contains("events-"));
    let mut contents: Vec<String> = odd
        .map(|link| {
            let address = format!("{url}{}", link.replace("&amp;", "&"));
            let answer = site.lab.curl(&[&address]).expect(200);
            String::from_utf8(answer.body).expect("text")
        })
        .collect();
    contents.sort();
    let mut names = NAMES.map(str::to_owned);
    names.sort();
    assert_eq!(contents, names);
    // As the browser was sent it.
    let copy = site.lab.fresh("listing").with_extension("html");
    fs::write(&copy, site.lab.curl(&[&url]).expect(200).body).expect("a copy");
    assert_eq!(site.can_be_read(&copy)["tables"], 1);
}
