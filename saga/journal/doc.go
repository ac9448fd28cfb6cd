// Package journal answers one question: where does a saga whose steps change a store
// keep its journal?
//
// In a keyspace of that store. Then a step and the record that says that it is done
// are one transaction, wherever their keys are: a step made by [Step] takes effect at
// most once, whatever crashes, and whatever else works on the same saga.
//
//	j, err := journal.Open(ctx, db, journal.Options{})
//	if err != nil { … }
//	runner, err := saga.NewRunner(j, saga.Options{})
//	if err != nil { … }
//	defer runner.Close() // before the store
//	transfers, err := saga.Register(runner, saga.Definition[Transfer]{
//		Name:  "transfer",
//		Steps: []saga.Step[Transfer]{journal.Step("debit", debit, giveBack), journal.Step("credit", credit, nil)},
//	})
//
// A saga of n such steps costs n transactions, one after the other: the first begins it
// too. Each other step costs one write of the journal, and one more if it is the first.
//
// [Once] is for steps that change another store than the one with the journal: a marker
// that commits with the change keeps the rules of [saga.Judge] there.
//
// The limit: a journal is a keyspace of kind Range, and so begins in one group of one
// store. It is split, at o/ and the id of a saga say, and moved like any other.
package journal
