package key

import "fmt"

// Type codes of FoundationDB's tuple layer. An encoded element starts with its
// code, so codes order elements of different types.
const (
	codeNil       = 0x00
	codeBytes     = 0x01
	codeString    = 0x02
	codeNested    = 0x05
	codeNegBig    = 0x0b // ^length, then length bytes of ^magnitude
	codeNegInt8   = 0x0c // codeZero-n is a negative number of n bytes
	codeZero      = 0x14
	codePosInt8   = 0x1c // codeZero+n is a positive number of n bytes
	codePosBig    = 0x1d // length, then length bytes of magnitude
	codeFloat32   = 0x20
	codeFloat64   = 0x21
	codeFalse     = 0x26
	codeTrue      = 0x27
	codeUUID      = 0x30
	codeVersion80 = 0x32
	codeVersion96 = 0x33

	// escape follows a zero byte that is data, not a terminator. It is never
	// a type code: the order of strings and nested tuples rests on that.
	escape = 0xff
)

// maxIntBytes is the longest magnitude that the one length byte can state.
const maxIntBytes = 255

// Kind is the type of an [Element].
type Kind uint8

// The kinds, in the order in which their elements sort.
const (
	KindInvalid Kind = iota // the zero Element
	KindNil
	KindBytes
	KindString
	KindTuple
	KindInt // an integer of any size
	KindFloat32
	KindFloat64
	KindBool
	KindUUID
	KindVersionstamp80
	KindVersionstamp
)

var kindNames = [...]string{
	"invalid", "nil", "bytes", "string", "tuple", "int", "float32", "float64",
	"bool", "uuid", "versionstamp80", "versionstamp",
}

// String returns the kind's name.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// kinds maps a type code to its kind; codes that are not ours map to
// KindInvalid. A table costs one load where a switch costs several branches.
var kinds = func() (t [256]Kind) {
	t[codeNil] = KindNil
	t[codeBytes] = KindBytes
	t[codeString] = KindString
	t[codeNested] = KindTuple
	for c := codeNegBig; c <= codePosBig; c++ {
		t[c] = KindInt
	}
	t[codeFloat32] = KindFloat32
	t[codeFloat64] = KindFloat64
	t[codeFalse] = KindBool
	t[codeTrue] = KindBool
	t[codeUUID] = KindUUID
	t[codeVersion80] = KindVersionstamp80
	t[codeVersion96] = KindVersionstamp
	return t
}()
