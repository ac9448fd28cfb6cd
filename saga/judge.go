package saga

// Verdict is what the other side does with a call.
type Verdict uint8

// The verdicts.
const (
	// Execute it, and note that it was.
	Execute Verdict = iota
	// Note that it was executed, and do nothing: an Undo of what was not done.
	Note
	// Repeat the answer of the first time, and do nothing.
	Repeat
	// Refuse it: a Do that comes after its Undo.
	Refuse
)

// Judge says what the other side of a step that is not atomic does with a call, given
// what it has noted of the two calls of that step. What it notes it must keep together
// with the effect, and at least until the saga is removed from the journal.
//
// A Do can be called twice, by a runner that did not hear the answer. An Undo can be
// called although its Do was never heard of, because the runner cannot know. And that Do
// may still be on its way, and must not take effect when it comes.
func Judge(undo, didDo, didUndo bool) Verdict {
	switch {
	case undo && didUndo, !undo && didDo && !didUndo:
		return Repeat
	case undo && !didDo:
		return Note
	case !undo && didUndo:
		return Refuse
	}
	return Execute
}
