// Package config answers one question: how is a server to be set up?
//
// Every setting stands once, in the table of [Settings]: its name, what it may be, its
// default, whether it can change while the server runs, and a sentence about it. Flags,
// environment, file, the example file and the check of a file are all made from that
// table, so none of them can know a setting that another does not.
//
// A setting that Redis has is called as Redis calls it. A flag counts more than the
// environment, and that more than the file. What is not understood is a [Mistake] with
// its place, never a silent default, and all mistakes are reported at once.
//
// The package reads and judges. It opens nothing but the file, and does not know what a
// server does with a setting.
package config
