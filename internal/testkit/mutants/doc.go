// Package mutants proves that the tests would notice: it plants each mutant, one at a time, and runs the
// tests that guard against it, which must fail. A harness that never caught a bug proves nothing.
//
// A mutant is a bug that is planted on purpose, such as a lock that is not taken. Production code has no
// trace of it. It is a [Patch] under patches, at the path of the file that it changes, and its guards are in
// the table mutants of mutants_test.go. A patch puts conditions like
//
//	if c.Revision != revision && !plant.Bug("journal-any-revision") {
//
// into a copy of the file. The guards are built once, with all patches: the go command reads the copies
// instead of the files (-overlay). Each run of a guard then switches one mutant on, by the environment variable
// of package plant.
//
// # Patches
//
// A patch is a unified diff. Its hunks begin with the names of their mutants and the function that they
// are in, instead of numbers of lines:
//
//	@@ journal-any-revision @@ checkRevision
//	 		return err
//	 	}
//	-	if r.Revision != revision {
//	+	if r.Revision != revision && !plant.Bug("journal-any-revision") {
//	 		return saga.ErrConflict
//	 	}
//
// A hunk applies if its lines are in that function once, with all its context or, after other edits, with what
// is left of it. The import of the switch is added by itself; other imports that only mutants use are a
// hunk of their own. The short tests apply all patches, and type-check the result.
//
// # How to plant a mutant
//
// Write the condition into production code, import package plant there, and run `make extract`: that takes
// the condition out again and writes the patch. Name the mutant and its guards in the table, and see it caught:
// `make mutants MUTANTS=folder`.
//
// What is left of the code is what it does if the condition is false: `a && !plant.Bug("x")` leaves a, an if
// or a case of a mutant alone leaves nothing, and imports and declarations go that only mutants use. Write
// the condition so that the code reads well without it. [Extract] refuses what it cannot take out.
//
// # How to renew patches
//
// A patch that does not fit its code fails the short tests. If little has changed, edit the lines of the
// hunk to what the code has. Else run `make plant`, which puts all mutants that fit into the code and names the
// others, add those by hand, and run `make extract`. It loses no mutant: what the code lacks is an error.
package mutants
