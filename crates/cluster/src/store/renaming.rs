//! Renames, onto a name that another node may have: one file has it at any time, and none is lost.

use std::time::Duration;

use futures_util::future::join_all;
use storage::{Overwrite, name_aside};
use tokio::time::{Instant, sleep, timeout};
use types::{Error, ErrorCode, LogicalPath, Phase, Result, Side};

use super::{ClusterStore, Done, Holders, exists, in_time};
use crate::explanation::Undirected;
use crate::fixed::{below, is_missing};
use crate::limits::{
    ANSWER_TIME_MS, RETURN_LOOK_MS, RETURN_TIME_MS, RIVAL_LOOK_MS, RIVAL_TIME_MS, RIVALS_GONE_TIME_MS,
};
use crate::node::NodeId;

/// A rename of a name on all nodes that have it.
struct Rename<'a> {
    from: &'a LogicalPath,
    to: &'a LogicalPath,
    overwrite: Overwrite,
    /// The nodes that have the old name.
    holders: &'a Holders,
    /// Those that have a file of the new one.
    replaced: &'a [NodeId],
}

/// An old file that gives its name to a renamed one.
struct Aside {
    nodes: Vec<NodeId>,
    path: LogicalPath,
}

impl ClusterStore {
    /// Renames a name on all nodes that have it. Whether it replaced a file.
    ///
    /// A file of the new name on another node is first renamed itself, and removed when the new one
    /// has its name. Were it removed first, a failure would leave nothing of it; were it removed
    /// last, the end of this process in between would leave two files under one name for ever. In
    /// this order that leaves the old file beside the new name, and one file or none under it.
    pub(super) async fn rename_everywhere(
        &self,
        from: &LogicalPath,
        to: &LogicalPath,
        overwrite: Overwrite,
    ) -> Result<bool> {
        let director = &self.redirector.director;
        let refused = |why| self.redirector.refused(&why, to);
        let _claim = match director.claim(to).await {
            Ok(claim) => claim,
            Err(Undirected::Claimed) => {
                // It goes first when the name is free, if it can be made at all.
                self.holders(from).await?;
                director.wait_for(to);
                return Err(refused(Undirected::Claimed));
            }
            Err(why) => return Err(refused(why)),
        };
        let holders = self.holders(from).await?;
        self.check_may_hold(&holders.nodes, to)?;
        if overwrite == Overwrite::Refuse {
            self.check_certain(to)?;
        }
        // As for a new file: what a node that is away may have is no reason to refuse.
        let replaced = match director.locate_all(to, true).await {
            Ok(_) | Err(Undirected::Directory(_)) if overwrite == Overwrite::Refuse => return Err(exists(to)),
            Ok(_) if holders.is_directory => return Err(exists(to)),
            Ok(there) => there.holders,
            Err(Undirected::Directory(_)) => return Err(exists(to)),
            Err(Undirected::NotFound(_)) => Vec::new(),
            Err(why) => return Err(refused(why)),
        };
        // Another redirector may have sent a client with this name to a node meanwhile.
        if director.expects(to) {
            return Err(refused(Undirected::Claimed));
        }
        let others = replaced.iter().copied().filter(|node| !holders.nodes.contains(node));
        let aside = self.put_aside(others.collect(), to).await?;
        let rename = Rename {
            from,
            to,
            overwrite,
            holders: &holders,
            replaced: &replaced,
        };
        self.rename_holders(&rename, &aside).await?;
        self.remove_aside(aside).await?;
        Ok(!replaced.is_empty())
    }

    async fn rename_holders(&self, rename: &Rename<'_>, aside: &Aside) -> Result<()> {
        let Rename { from, to, holders, .. } = *rename;
        let done = self.rename_on(&holders.nodes, from, to, rename.overwrite).await;
        let done = self.settle(done, from, to).await;
        let renamed: Vec<NodeId> = succeeded(&done);
        for node in &renamed {
            self.note_renamed(holders.is_directory, from, to, *node);
        }
        if let Err(error) = self.all_or_error(done, from) {
            return Err(self.undo(rename, &renamed, aside, error).await);
        }
        if holders.is_directory {
            return Ok(());
        }
        match self.keeps_name(&renamed, to).await {
            true => Ok(()),
            false => self.give_way(rename, &renamed, aside).await,
        }
    }

    /// Whether no other node has the new name. A rename through another redirector may have given
    /// it meanwhile: of two, the later one sees the other, because each looks after its own rename.
    /// If each sees the other, only one gives way: the node whose URL comes first keeps the name if
    /// the other is undone in time.
    async fn keeps_name(&self, renamed: &[NodeId], to: &LogicalPath) -> bool {
        let first = |nodes: &[NodeId]| nodes.iter().map(|node| self.redirector.name(*node)).min();
        let until = Instant::now() + Duration::from_millis(RIVAL_TIME_MS);
        loop {
            let rivals = self.others_with(renamed, to).await;
            if rivals.is_empty() {
                return true;
            }
            if first(&rivals) < first(renamed) || Instant::now() >= until {
                return false;
            }
            sleep(Duration::from_millis(RIVAL_LOOK_MS)).await;
        }
    }

    /// Nodes besides these that have a name.
    async fn others_with(&self, nodes: &[NodeId], path: &LogicalPath) -> Vec<NodeId> {
        let candidates = self.redirector.candidates(path).into_iter();
        let others: Vec<NodeId> = candidates.filter(|node| !nodes.contains(node)).collect();
        succeeded(&self.ask_directly(&others, path).await)
    }

    /// Another file has got the new name: the renamed one gets its old name again.
    async fn give_way(&self, rename: &Rename<'_>, renamed: &[NodeId], aside: &Aside) -> Result<()> {
        let Rename { from, to, .. } = *rename;
        let done = self.rename_on(renamed, to, from, Overwrite::Refuse).await;
        for node in succeeded(&done) {
            self.note_renamed(false, to, from, node);
        }
        if done.iter().all(|done| done.result.as_ref().is_err_and(is_missing)) {
            // The other one has replaced it.
            return Ok(());
        }
        let error = exists(to).with_detail("another file got this name at the same time");
        if let Err(undone) = self.all_or_error(done, to) {
            let why = undone.detail().unwrap_or_default();
            let words = format!("another file got this name at the same time, and the rename stays: {why}");
            return Err(self.left_aside(aside, error.with_detail(words)));
        }
        // The other rename may give way, too.
        let until = Instant::now() + Duration::from_millis(RIVALS_GONE_TIME_MS);
        while !aside.nodes.is_empty() {
            if self.others_with(&[], to).await.is_empty() {
                return Err(self.put_back(aside, to, error).await);
            }
            if Instant::now() >= until {
                break;
            }
            sleep(Duration::from_millis(RIVAL_LOOK_MS)).await;
        }
        Err(self.left_aside(aside, error))
    }

    /// After this error of some nodes, those that have renamed it give it the old name again, and
    /// the old file gets its own, where that certainly leaves one file of each name.
    async fn undo(&self, rename: &Rename<'_>, renamed: &[NodeId], aside: &Aside, error: Error) -> Error {
        let Rename { from, to, holders, .. } = *rename;
        // A node that does not answer may have renamed it, or still do so.
        let others = holders.nodes.iter().copied().filter(|node| !renamed.contains(node));
        let answers = self.ask_directly(&others.collect::<Vec<_>>(), to).await;
        let has_none = |done: &Done<()>| done.result.as_ref().is_err_and(is_missing);
        // Where it has replaced the old file, nothing else is left.
        let has_replaced = renamed.iter().any(|node| rename.replaced.contains(node));
        if has_replaced || !answers.iter().all(has_none) {
            return self.left_aside(aside, error);
        }
        let undone = succeeded(&self.rename_on(renamed, to, from, Overwrite::Refuse).await);
        for node in &undone {
            self.note_renamed(holders.is_directory, to, from, *node);
        }
        match undone.len() == renamed.len() {
            true => self.put_back(aside, to, error).await,
            false => self.left_aside(aside, error),
        }
    }

    fn note_renamed(&self, is_directory: bool, from: &LogicalPath, to: &LogicalPath, node: NodeId) {
        let director = &self.redirector.director;
        director.removed(from, node);
        match is_directory {
            true => {
                director.forget(node);
                director.made(to);
            }
            false => director.created(to, node),
        }
    }

    async fn rename_on(
        &self,
        nodes: &[NodeId],
        from: &LogicalPath,
        to: &LogicalPath,
        overwrite: Overwrite,
    ) -> Vec<Done<()>> {
        let client = self.redirector.nodes.client();
        let renames = nodes.iter().filter_map(|id| {
            let resource = self.resource(*id, from)?;
            let target = below(&self.redirector.nodes.get(*id)?.location, to.as_str());
            Some(async move {
                let rename = client.rename(&resource, &target, overwrite == Overwrite::Allow);
                let result = in_time(rename).await.map(|_| ());
                Done { node: *id, result }
            })
        });
        join_all(renames).await
    }

    /// Whether these nodes have a name, asked directly: news over a bus may come later.
    async fn ask_directly(&self, nodes: &[NodeId], path: &LogicalPath) -> Vec<Done<()>> {
        let client = self.redirector.nodes.client();
        let late = |_| Err(Error::new(ErrorCode::NodesSilent, Side::Active, Phase::Open));
        self.on_each(nodes, path, async |resource| {
            let stat = timeout(Duration::from_millis(ANSWER_TIME_MS), client.stat(&resource));
            stat.await.unwrap_or_else(late).map(|_| ())
        })
        .await
    }

    /// Gives the file of this name on these nodes another one beside it.
    async fn put_aside(&self, nodes: Vec<NodeId>, path: &LogicalPath) -> Result<Aside> {
        let mut aside = Aside {
            nodes: Vec::new(),
            path: name_aside(path, ".replaced-")?,
        };
        if nodes.is_empty() {
            return Ok(aside);
        }
        let done = self.rename_on(&nodes, path, &aside.path, Overwrite::Refuse).await;
        let done = self.settle(done, path, &aside.path).await;
        let has_failed = |done: &&Done<()>| done.result.as_ref().is_err_and(|error| !is_missing(error));
        for done in done.iter().filter(|done| !has_failed(done)) {
            self.redirector.director.removed(path, done.node);
        }
        // One that does not answer may have renamed it.
        aside.nodes = succeeded(&done);
        aside.nodes.extend(done.iter().filter(has_failed).map(|done| done.node));
        match done.iter().any(|done| has_failed(&done)) {
            true => {
                let error = self.first_error(done, path);
                Err(self.put_back(&aside, path, error).await)
            }
            false => Ok(aside),
        }
    }

    /// After this error, the old file gets its name again.
    async fn put_back(&self, aside: &Aside, path: &LogicalPath, error: Error) -> Error {
        let from = &aside.path;
        let rename = |nodes: Vec<NodeId>| async move { self.rename_on(&nodes, from, path, Overwrite::Refuse).await };
        let done = self.when_back(&aside.nodes, rename).await;
        succeeded(&done)
            .iter()
            .for_each(|node| self.redirector.director.created(path, *node));
        // One without it has not renamed it.
        let is_back = |done: &Done<()>| done.result.as_ref().err().is_none_or(is_missing);
        match done.iter().all(is_back) {
            true => error,
            false => self.left_aside(aside, error),
        }
    }

    /// The error, with the name that the old file has now.
    fn left_aside(&self, aside: &Aside, error: Error) -> Error {
        if aside.nodes.is_empty() {
            return error;
        }
        let why = error.detail().unwrap_or_default().to_owned();
        error.with_detail(format!("{why}; the old file is now {}", aside.path))
    }

    async fn remove_aside(&self, aside: Aside) -> Result<()> {
        let (client, path) = (self.redirector.nodes.client(), &aside.path);
        let remove = |nodes: Vec<NodeId>| async move {
            let delete = async |resource| client.delete(&resource).await;
            self.on_each(&nodes, path, delete).await
        };
        let mut done = self.when_back(&aside.nodes, remove).await;
        // One without it has removed it, and its answer was lost.
        done.retain(|done| done.result.as_ref().is_err_and(|error| !is_missing(error)));
        if done.is_empty() {
            return Ok(());
        }
        let error = self.first_error(done, &aside.path);
        let why = error.detail().unwrap_or_default().to_owned();
        let words = format!(
            "it was renamed, but the old file is still there as {}: {why}",
            aside.path
        );
        Err(error.with_detail(words))
    }

    /// Does something on these nodes, and again on those that do not answer, for as long as one
    /// takes to start again.
    async fn when_back<F>(&self, nodes: &[NodeId], act: impl Fn(Vec<NodeId>) -> F) -> Vec<Done<()>>
    where
        F: Future<Output = Vec<Done<()>>>,
    {
        let until = Instant::now() + Duration::from_millis(RETURN_TIME_MS);
        let (mut done, mut left) = (Vec::new(), nodes.to_vec());
        while !left.is_empty() {
            let is_last = Instant::now() >= until;
            let answers = act(std::mem::take(&mut left)).await;
            for answer in answers {
                match !is_last && is_unanswered(&answer) {
                    true => left.push(answer.node),
                    false => done.push(answer),
                }
            }
            if !left.is_empty() {
                sleep(Duration::from_millis(RETURN_LOOK_MS)).await;
            }
        }
        done
    }

    /// A node whose answer to a rename was lost is asked, when it is back, whether it has made it.
    async fn settle(&self, mut done: Vec<Done<()>>, from: &LogicalPath, to: &LogicalPath) -> Vec<Done<()>> {
        let lost = done.iter().filter(|done| is_unanswered(done));
        let lost: Vec<NodeId> = lost.map(|done| done.node).collect();
        let ask = |nodes: Vec<NodeId>| async move { self.ask_directly(&nodes, to).await };
        let with_new = succeeded(&self.when_back(&lost, ask).await);
        for answer in self.ask_directly(&with_new, from).await {
            let has_renamed = answer.result.is_err_and(|error| is_missing(&error));
            let settled = done.iter_mut().filter(|done| has_renamed && done.node == answer.node);
            settled.for_each(|done| done.result = Ok(()));
        }
        done
    }
}

/// Whether contact with the node was lost, so that its answer is not known.
fn is_unanswered(done: &Done<()>) -> bool {
    let is_lost = |error: &Error| error.peer_status().is_none() && !is_missing(error);
    done.result.as_ref().is_err_and(is_lost)
}

fn succeeded(done: &[Done<()>]) -> Vec<NodeId> {
    let done = done.iter().filter(|done| done.result.is_ok());
    done.map(|done| done.node).collect()
}
