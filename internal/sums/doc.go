// Package sums answers one question: how does a split counter change its number of
// parts without losing or counting twice what is added meanwhile?
//
// A counter is the sum of its parts, which are rows that hold numbers. Part 0 is always
// open. The others are open if their rows exist, and an add to one of them demands
// that: one that comes too late is refused, and goes elsewhere. A row, the manifest, says
// how many are open. It is changed in one transaction with the rows of the parts, so
// that at every moment the open parts hold all that was added.
//
// The package only computes: what a resize makes of the parts ([Resize]), what they sum
// to ([Total]), and whether to resize at all ([Sizer]). Package counter carries it out
// on a store, and the simulator on groups.
package sums
