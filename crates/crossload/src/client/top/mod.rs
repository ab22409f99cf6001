//! `crossload top`: what a server does now, on a terminal, from the JSON of its pages, and what its
//! operators order there.

mod fit;
mod looks;
mod orders;
mod screen;
mod tables;
mod view;

use std::mem;
use std::pin::pin;
use std::time::Duration;

use serde_json::{Map, Value, json};

use self::looks::{Kind, Looks, Seen};
use self::screen::{Key, Screen};
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

/// What is on the screen.
struct Shown<'a> {
    server: &'a str,
    seen: Seen,
    /// Which view was looked at.
    seen_kind: Option<Kind>,
    view: &'a mut View,
    screen: &'a mut Screen,
}

impl Shown<'_> {
    /// Draws what was seen. Until the first look at a view, the picture before stays.
    fn draw(&mut self) {
        if self.seen_kind == Some(self.view.kind()) {
            let size = self.screen.size();
            let frame = self.view.frame(self.server, &self.seen, size);
            self.screen.draw(&frame);
        }
    }

    /// Waits for something, and draws what keys change meanwhile.
    ///
    /// # Errors
    /// A key asks for something else.
    async fn until<T>(&mut self, waited: impl Future<Output = T>) -> Result<T, Act> {
        let mut waited = pin!(waited);
        loop {
            self.draw();
            let key = tokio::select! {
                biased;
                found = &mut waited => return Ok(found),
                key = self.screen.key() => key,
            };
            match key.map_or(Act::Quit, |key| self.view.press(key)) {
                Act::Draw => {}
                act => return Err(act),
            }
        }
    }

    /// Waits for the answer to a question or an order. `None`: the operator stopped waiting, by
    /// Escape or `q`.
    async fn answered<T>(&mut self, asked: impl Future<Output = T>) -> Option<T> {
        self.view.say(ASKING.to_owned());
        self.draw();
        let mut asked = pin!(asked);
        loop {
            let key = tokio::select! {
                biased;
                answer = &mut asked => return Some(answer),
                key = self.screen.key() => key,
            };
            if matches!(key, None | Some(Key::Escape | Key::Character('q'))) {
                return None;
            }
        }
    }

    /// Does what a key asks for; false: it is the end.
    async fn goes_on(&mut self, looks: &Looks<'_>, act: Act) -> bool {
        match act {
            Act::Quit => return false,
            Act::Draw | Act::Look => {}
            Act::Ask(target) => {
                let question = self.answered(looks.question(target)).await;
                self.view
                    .ask(question.unwrap_or_else(|| Err("No answer yet: nothing was done".to_owned())));
                // Keys that were pressed before the question was there do not answer it.
                self.screen.forget_keys();
            }
            Act::Order(question) => {
                let done = self.answered(looks.order(&question)).await;
                self.view
                    .say(done.unwrap_or_else(|| "No answer yet: it may have been done, see its row".to_owned()));
            }
        }
        true
    }
}

/// Polls the server and draws, until a key ends it. A failed poll is shown above the last answer.
async fn follow(looks: &Looks<'_>, view: &mut View, screen: &mut Screen, options: &TopOptions) {
    let interval = options.interval.max(INTERVAL_MIN);
    let mut shown = Shown {
        server: &options.url,
        seen: Seen::Fresh(json!({})),
        seen_kind: None,
        view,
        screen,
    };
    let mut last = None;
    loop {
        let (kind, filter, sort) = (shown.view.kind(), shown.view.filter().to_owned(), shown.view.sort());
        let wanted = Some((kind, filter.clone(), sort));
        // A stopped screen goes on to another view, filter or order.
        if !shown.view.is_paused() || last != wanted {
            let looked = match shown.until(looks.look(kind, &filter, sort)).await {
                Ok(looked) => looked,
                Err(act) => match shown.goes_on(looks, act).await {
                    true => continue,
                    false => return,
                },
            };
            shown.seen = mem::replace(&mut shown.seen, Seen::Fresh(Value::Null)).then(looked);
            shown.seen_kind = Some(kind);
            last = wanted;
        }
        let waited = shown.until(tokio::time::sleep(interval)).await;
        if let Err(act) = waited
            && !shown.goes_on(looks, act).await
        {
            return;
        }
    }
}
