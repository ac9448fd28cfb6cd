// Package check answers one question: is this recorded history of concurrent
// operations one that a strictly serializable store can give?
//
// A test lets clients loose on a store, notes of every call when it was invoked,
// when it returned and its result, and hands the notes over. The checkers are
// pure: the same history gets the same report, word for word.
//
//   - [Lists] judges transactions that read lists and append to them. It is
//     exact: a history without anomaly has an order of its transactions that
//     explains every read and respects real time, and one with an anomaly has
//     none. It takes time linear in the history (a sort apart), if that is right.
//   - [Bank], [Bookings], [Counter] and [Scans] judge what their workloads promise,
//     which is less, and cheap.
//   - Package register, below this one, judges registers with compare-and-swap
//     key by key.
//
// Lists are chosen because they show their past: one read of [1 2 3] has the order of the
// three writes. The longest read of each key gives the order of its
// versions, and from that follow three kinds of edges between transactions:
//
//	ww  appended the next element behind it
//	wr  read what it appended, as the last element
//	rw  appended the first element that a read did not see yet
//
// With real time (rt: returned before the other was invoked) as the fourth, a
// cycle is a contradiction. What was appended and never read lies behind all that
// was, in an unknown order.
//
// An operation whose outcome is unknown stays open: it may take effect at any
// time after its invocation, or never. It counts as committed if and only if a
// committed transaction saw one of its elements.
//
// The limits: all lists are empty at the start and an element is appended once.
// Reads of transactions that did not commit are not judged; a test that wants
// them to be consistent too records them as a transaction of their own that only
// reads. In a history with many contradictions the search for the shortest cycle
// of every kind gives up after a fixed number of steps: each knot of
// transactions has at least one cycle reported then, but perhaps not the
// shortest.
package check
