//! `crossload top`: what a server does now, on a terminal, from the JSON of its pages, and the orders
//! that its operators give there.

mod fit;
mod looks;
mod orders;
mod screen;
mod tables;
mod view;

use std::time::Duration;

use serde_json::{Map, Value, json};

use self::looks::{Kind, Looks, Seen};
use self::screen::Screen;
use self::view::{Act, View};
use super::session::ClientContext;
use crate::command_line::TopOptions;
use crate::failure::Failure;
use crate::output;

/// Shortest time between two looks.
const INTERVAL_MIN: Duration = Duration::from_millis(200);

/// What is said while a server answers.
const ASKING: &str = "Asking the server…";

/// Shows a server until `q`, or once.
///
/// # Errors
/// The server has no pages, or does not answer at the first look.
pub(super) async fn run(session: &ClientContext, options: &TopOptions) -> Result<u8, Failure> {
    let looks = Looks::open(session, &options.url).await?;
    let mut view = View::new(looks.kinds(), &options.filter);
    if options.common.json {
        let mut all = Map::new();
        // The document of workers is that of jobs.
        for kind in looks.kinds().into_iter().filter(|kind| *kind != Kind::Workers) {
            all.insert(kind.word().to_owned(), looks.look(kind, &options.filter, None).await?);
        }
        output::json(&Value::Object(all));
        return Ok(0);
    }
    let screen = match options.once {
        true => None,
        false => Screen::open(),
    };
    let Some(mut screen) = screen else {
        for kind in looks.kinds() {
            let seen = Seen::Fresh(looks.look(kind, &options.filter, None).await?);
            view.show(kind);
            view.print(&options.url, &seen)
                .iter()
                .for_each(|line| output::line(line));
        }
        return Ok(0);
    };
    follow(&looks, &mut view, &mut screen, options).await;
    Ok(0)
}

/// Polls the server and draws, until a key ends it. A failed poll is shown above the last answer.
async fn follow(looks: &Looks<'_>, view: &mut View, screen: &mut Screen, options: &TopOptions) {
    let interval = options.interval.max(INTERVAL_MIN);
    let mut seen = Seen::Fresh(json!({}));
    let mut seen_kind = None;
    loop {
        // A stopped screen goes on to another view.
        if !view.is_paused() || seen_kind != Some(view.kind()) {
            let looked = looks.look(view.kind(), view.filter(), view.sort()).await;
            seen = seen.then(looked);
            seen_kind = Some(view.kind());
        }
        let next = tokio::time::Instant::now() + interval;
        loop {
            screen.draw(&view.frame(&options.url, &seen, screen.size()));
            let key = tokio::select! {
                key = screen.key() => key,
                () = tokio::time::sleep_until(next) => break,
            };
            match key.map_or(Act::Quit, |key| view.press(key)) {
                Act::Quit => return,
                Act::Draw => {}
                Act::Look => break,
                Act::Ask(target) => {
                    view.say(ASKING.to_owned());
                    screen.draw(&view.frame(&options.url, &seen, screen.size()));
                    view.ask(looks.question(target).await);
                    // Keys that were pressed before the question was there do not answer it.
                    screen.forget_keys();
                }
                Act::Order(question) => {
                    view.say(ASKING.to_owned());
                    screen.draw(&view.frame(&options.url, &seen, screen.size()));
                    view.say(looks.order(&question).await);
                    break;
                }
            }
        }
    }
}
