//! `crossload top`: what a server does now, on a terminal, from the JSON of its pages.

mod looks;
mod screen;
mod view;

use std::time::Duration;

use serde_json::{Map, Value, json};

use self::looks::{Looks, Seen};
use self::screen::Screen;
use self::view::{Act, View};
use super::session::ClientContext;
use crate::command_line::TopOptions;
use crate::failure::Failure;
use crate::output;

/// Shortest time between two looks.
const INTERVAL_MIN: Duration = Duration::from_millis(200);

/// Shows a server until `q`, or once.
///
/// # Errors
/// The server has no pages, or does not answer at the first look.
pub(super) async fn run(session: &ClientContext, options: &TopOptions) -> Result<u8, Failure> {
    let looks = Looks::open(session, &options.url).await?;
    let mut view = View::new(looks.kinds(), &options.filter);
    if options.common.json {
        let mut all = Map::new();
        for kind in looks.kinds() {
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
            view.frame(&options.url, &seen, None)
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
    loop {
        if !view.is_paused() {
            let looked = looks.look(view.kind(), view.filter(), view.sort()).await;
            seen = seen.then(looked);
        }
        let next = tokio::time::Instant::now() + interval;
        loop {
            screen.draw(&view.frame(&options.url, &seen, Some(screen.size())));
            let key = tokio::select! {
                key = screen.key() => key,
                () = tokio::time::sleep_until(next) => break,
            };
            match key.map_or(Act::Quit, |key| view.press(key)) {
                Act::Quit => return,
                Act::Draw => {}
                Act::Look => break,
            }
        }
    }
}
