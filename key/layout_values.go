package key

import "time"

// Values are the columns of a decoded key. They are views of the key, which
// must not change while they are in use.
type Values struct {
	layout *Layout
	fields []Element // one for each of the layout's fields
}

// String prints them for people, as [Layout.Format] does the key.
func (v Values) String() string {
	if v.layout == nil {
		return ""
	}
	return string(v.layout.appendFields(nil, v.fields))
}

// Value returns a column by name. A time of which the key has only buckets is
// the start of the bucket, and Exact is false for it. Under the name of a
// bucket or a salt, such as hour(ts) or salt(16), it returns the bucket's start
// or the salt as an int. It reports false for what the key does not say.
func (v Values) Value(name string) (any, bool) {
	if v.layout == nil {
		return nil, false
	}
	if i := v.layout.columnIndex(name); i >= 0 {
		c := &v.layout.columns[i]
		if c.typ == TypeTime {
			return boxed(v.layout.instant(v.fields, c))
		}
		if c.bare < 0 || c.bare >= len(v.fields) {
			return nil, false
		}
		return v.fields[c.bare].Value(), true
	}
	i := v.layout.fieldIndex(name)
	if i < 0 || i >= len(v.fields) {
		return nil, false
	}
	if b := v.layout.fields[i].Bucket; b != 0 {
		span, err := elementSpan(b, v.fields[i])
		return span.Start(), err == nil
	}
	salt, ok := v.fields[i].Int()
	return int(salt), ok
}

// boxed returns t as a column's value, and nil if there is none.
func boxed(t time.Time, ok bool) (any, bool) {
	if !ok {
		return nil, false
	}
	return t, true
}

// Exact reports whether the key holds the column itself, rather than only a
// bucket or a salt that was computed from it.
func (v Values) Exact(column string) bool {
	if v.layout == nil {
		return false
	}
	i := v.layout.columnIndex(column)
	return i >= 0 && v.layout.columns[i].bare >= 0 && v.layout.columns[i].bare < len(v.fields)
}

// Element returns the encoded i-th field, and the zero Element past the last
// one that was decoded. It allocates nothing, where Value does.
func (v Values) Element(i int) Element {
	if i < 0 || i >= len(v.fields) {
		return Element{}
	}
	return v.fields[i]
}

// Map returns all the columns that the key holds. A time of which it holds only
// buckets is the start of the bucket, as [Values.Value] says.
func (v Values) Map() Columns {
	if v.layout == nil {
		return Columns{}
	}
	m := make(Columns, len(v.layout.columns))
	for i := range v.layout.columns {
		name := v.layout.columns[i].name
		if value, ok := v.Value(name); ok {
			m[name] = value
		}
	}
	return m
}
