// Package saga answers one question: how is a piece of work of several steps
// finished, or taken back, whatever crashes in between?
//
// A saga is a list of named steps. Each has a Do, and an Undo that takes it back.
// A journal records how far it has come, and each entry is durable before the work
// that it announces begins: so a crash at any moment leaves a saga that [Runner.Resume]
// continues.
//
//	transfers, err := saga.Register(runner, saga.Definition[Transfer]{
//		Name:  "transfer",
//		Steps: []saga.Step[Transfer]{{Name: "debit", Do: debit, Undo: giveBack}, {Name: "credit", Do: credit}},
//	})
//	if err != nil { … }
//	_, err = runner.Resume(ctx) // what was under way when the program ended
//	t, err := transfers.Run(ctx, "order-17", Transfer{From: "a", To: "b", Amount: 30})
//
// # Promises
//
//   - Every saga ends completed, all its steps done, or compensated, those that were
//     done undone in reverse order. One whose Undo keeps failing, or whose code is
//     gone, is stuck: it stands still, reports why, and goes on when asked to.
//   - A step made by [Transactional] takes effect at most once, with no care by its
//     author: the journal records it as done in the same transaction. Package
//     journal makes such steps on a store.
//   - Any other step may be called again, after a failure or a crash, always with the
//     same key ([Call.Key]). It takes effect at most once if the other side keeps
//     the rules of [Judge]: that is the part that only the other side can do.
//   - An id names one saga. To start it again is to ask for its outcome.
//   - Two runners on one journal cannot both advance a saga: a write of the one
//     makes the other stop.
//
// # Choices
//
// A saga carries a value of a type of its own, which steps read and change, and
// which is kept in the journal. An error of a Do is tried again after a while, longer
// each time and never the same; one that is [Permanent], or one too many, turns the
// saga round. So do a deadline that has passed and [Runner.Cancel]. Undos are tried
// until they succeed.
//
// A saga follows the list of steps that it began with, by their names. A step that is
// added to the code later is for new sagas. One that is removed makes those that need
// it stuck: keep it with Retired set until they have ended.
//
// Package machine decides what a saga does next, and does nothing itself: it is for authors of
// a runner of their own, or of a simulation. This package has the runner.
//
// # Limits
//
// A saga is not isolated: others see what its steps have done before it ends, and an
// Undo comes after they may have acted on it. Where all keys are in one store, a
// transaction of that store is simpler, cheaper and seen whole; sagas are for what
// takes long or lies partly elsewhere. Steps are done one after the other. The value
// is written with each step: keep it small. One runner at a time should work on a
// journal; a second one takes over what is under way, and both may remove what has
// ended: see [Definition].Forget.
package saga
