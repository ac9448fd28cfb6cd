package redis

import (
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/cleavekv/cleave/internal/command"
)

// value is all that a key holds.
type value struct {
	kind     command.Kind
	text     []byte
	fields   []command.FieldValue
	expiryMS int64 // 0 for never
}

// load returns what a key holds, of kind None if it is absent.
func load(u Unit, p position) (v value, err error) {
	reply := u.Read(p, &command.Type{Key: p})
	if reply.Err != nil {
		return v, reply.Err
	}
	v.kind = command.Kind(reply.Int)
	switch v.kind {
	case command.None:
		return v, nil
	case command.String:
		reply = u.Read(p, &command.Get{Key: p})
		v.text = slices.Clone(reply.Bytes)
	case command.Hash:
		reply = u.Read(p, &command.HGetAll{Key: p})
		for _, item := range reply.Items {
			v.fields = append(v.fields, command.FieldValue{Field: slices.Clone(item.Field), Value: slices.Clone(item.Value)})
		}
	}
	if reply.Err != nil {
		return v, reply.Err
	}
	reply = u.Read(p, &command.TTL{Key: p, Absolute: true})
	v.expiryMS = max(0, reply.Int)
	return v, reply.Err
}

// fieldsAtOnce is how many fields are written by one command.
const fieldsAtOnce = 1000

// store makes a key hold a value, and nothing else.
func (v *value) store(u Unit, p position) error {
	expiry := command.Expiry{}
	if v.expiryMS > 0 {
		expiry = command.At(v.expiryMS)
	}
	if v.kind == command.String {
		return u.Write(p, &command.Set{Key: p, Value: v.text, Expiry: expiry}).Err
	}
	if err := u.Write(p, &command.Delete{Keys: []position{p}}).Err; err != nil {
		return err
	}
	for some := range slices.Chunk(v.fields, fieldsAtOnce) {
		if err := u.Write(p, &command.HSet{Key: p, Fields: some}).Err; err != nil {
			return err
		}
	}
	if v.expiryMS == 0 {
		return nil
	}
	return u.Write(p, &command.Expire{Key: p, Expiry: expiry}).Err
}

// dumpFormat is the first byte of a dump. Another format gets another one.
const dumpFormat = 0xC1

// dump is the value in the form of DUMP: the format, the kind, each part with its length
// before it, and a checksum of all that. The expiry is not in it.
func (v *value) dump() []byte {
	out := []byte{dumpFormat, byte(v.kind)}
	part := func(b []byte) {
		out = binary.AppendUvarint(out, uint64(len(b)))
		out = append(out, b...)
	}
	if v.kind == command.String {
		part(v.text)
	}
	for _, f := range v.fields {
		part(f.Field)
		part(f.Value)
	}
	return binary.LittleEndian.AppendUint64(out, xxhash.Sum64(out))
}

const errDump Error = "ERR DUMP payload version or checksum are wrong"

// undump is the value of a dump.
func undump(b []byte) (v value, err error) {
	if len(b) < 10 || b[0] != dumpFormat || xxhash.Sum64(b[:len(b)-8]) != binary.LittleEndian.Uint64(b[len(b)-8:]) {
		return v, errDump
	}
	v.kind, b = command.Kind(b[1]), b[2:len(b)-8]
	var parts [][]byte
	for len(b) > 0 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return v, errDump
		}
		parts, b = append(parts, b[size:size+int(n)]), b[size+int(n):]
	}
	switch {
	case v.kind == command.String && len(parts) == 1:
		v.text = parts[0]
	case v.kind == command.Hash && len(parts) > 0 && len(parts)%2 == 0:
		for i := 0; i < len(parts); i += 2 {
			v.fields = append(v.fields, command.FieldValue{Field: parts[i], Value: parts[i+1]})
		}
	default:
		return v, errDump
	}
	return v, nil
}
