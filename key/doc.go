// Package key answers one question: which bytes make the key of a record, so
// that keys sort the way they are scanned and can be read back?
//
// It has three parts, each usable without the others:
//
//   - Tuples: [Append] and [Decode] turn a list of typed values into bytes that
//     sort as the values do. The bytes are those of FoundationDB's tuple layer.
//   - Layouts: a [Layout] declares the shape of a keyspace's keys, such as
//     (region, hour(ts)) | id or salt(16) | ts:time, and then encodes, decodes,
//     prints and scans them.
//   - Time buckets and salts: a [Bucket] and a [Salter] are the two ways to keep
//     an ever growing key from becoming one hot place; [Latest] and [NewMerger] are
//     what reads need in return.
//
// Package key/ident says from a sample what kind of identifier a column holds.
//
// # Promises
//
// Order: bytes.Compare of two encodings equals [Compare] of the tuples.
//
// One form: a tuple has one encoding, and the decoder accepts no other. So
// encoding what was decoded gives the same bytes again, and equal keys are
// equal bytes.
//
// Safety: decoding never panics, and its memory is proportional to its input,
// whatever lengths that declares. What does not fit is an error that says
// where.
//
// Purity: nothing here reads a clock, draws a random number, starts a goroutine
// or does I/O. Equal inputs give equal bytes in every process and version.
//
// # Choices
//
// Strings are Go strings: the tuple functions take any bytes, as
// FoundationDB's own Go binding does. A [Layout] is stricter and refuses text
// that is not UTF-8, so that a decoder in any language reads its keys.
//
// Floats follow the total order of IEEE 754: -0 sorts before +0, NaNs sort at
// the two ends by sign, and every bit of them survives.
//
// # Limits
//
// Tuples nest at most [MaxDepth] deep. Integers have at most 255 bytes of
// magnitude. The type codes that FoundationDB marks reserved or deprecated
// (decimals, 80-bit floats, 64-bit identifiers, user types) are refused, but
// for the 80-bit versionstamp, which is supported.
package key
