// Package feed answers one question: in which order does one who reads the logs of
// several stores tell what was committed?
//
// Promise: every commit of a store is told once, whole and in its order, and those to
// one key in theirs, wherever it is moved. What a job does to rows is not told: nobody
// has changed them. Who goes on from a place that he has kept is told what he was not.
//
// Choice: a range that comes from another store comes with a note in the log, which says
// up to where in the log of that one its past is. A reader who meets it before it has come
// so far leaves the store for now, and reads the other.
//
// Limit: commits to different stores that have no key in common come in any order.
//
// Package cleave makes changes of commits; the simulator plays readers.
package feed
