// Package mutants answers one question: would the tests notice?
//
// It has nothing but a test: every rule that can be broken on purpose, by package
// plant, is broken, one at a time, and the tests that stand guard over it must fail.
// A harness that never caught a bug proves nothing.
package mutants
