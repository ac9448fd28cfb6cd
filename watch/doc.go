// Package watch answers one question: how is a program notified that something has
// changed, without asking again and again?
//
//	hub := watch.New(db)
//	w, err := hub.Watch(watch.Target{Keyspace: ks, Prefix: []byte("price/")}, watch.Options{})
//	if err != nil { … }
//	defer w.Close()
//	for e, err := range w.Events(ctx) { … }
//
// # Promises
//
//   - What is committed after [Hub.Watch] has returned is reported: each change with
//     Options.Every, otherwise at least the newest state of every key that has changed.
//   - Events of one key arrive in the order in which they happened, wherever the
//     key is moved meanwhile.
//   - A slow watcher holds up neither the store nor other watchers.
//     What waits for it is bounded. Beyond that it has to read again ([Lost]), or
//     with Options.Every goes on from the log by itself.
//   - Each event has the place to go on from: a watcher that comes back
//     with that [cleave.Cursor] misses nothing. It may receive again what it has received.
//   - [Hub.Follow] yields what there is and then what changes, with no gap between. What
//     it has yielded is, at any time, what the keys it has yielded were at one moment,
//     or are on the way to.
//   - [Hub.Until] waits for a key to meet a condition, and misses nothing in between.
//
// # Choices
//
// A hub has one reader of the feed for all of its watchers, which runs while there are
// any: one hub is enough for a DB. Finding the watchers of a key takes a look into a map and
// one into a tree of ranges. [Poll] is for sources that have no feed.
//
// # Limits
//
// An event is about one key or field. Those of one transaction come one after the other,
// and of its parts in different stores in any order: to see it whole read it in a View.
//
// A key that expires is reported as deleted when the store deletes it, not when its time has
// come. Housekeeping looks every 100 ms, and deletes all that is due; a transaction that
// holds the key keeps it until it ends. Item.Expires is the time.
//
// Dropping a keyspace ends its watchers with [cleave.ErrNoKeyspace]. A Cursor does
// not distinguish a keyspace from a later one of the same name: after a drop begin anew.
package watch
