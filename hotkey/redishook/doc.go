// Package redishook answers one question: which keys does a go-redis client wait for
// longest?
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	hook, err := redishook.New(detector, redishook.Options{})
//	client.AddHook(hook)
//
// A [Hook] reports commands to a [hotkey.Detector]. Those that are not chosen cost one random
// number.
//
// # What is attributed to which key
//
// A command counts for its first key, found by the position that the command has it at.
// Commands without a key, and those that wait because they are asked to, such as BLPOP or
// XREAD with BLOCK, do not count.
//
// The commands of a pipeline are answered together, so the time of each of
// them is unknown. All of its keys are given the time of the whole: that is how long the caller
// waited for them, and it compares with single commands, since the way there and back is
// most of both. A slow key makes its company look slow too; it stands out only where the
// company changes. Long pipelines take long because of their length, so those with more
// commands than Options.MaxPipeline do not count.
package redishook
