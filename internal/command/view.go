package command

// Scan visits the rows with start <= key < end, store keys both, as the next
// command of the batch would see them, in order or in reverse, until visit
// returns false. The visitor must not use the Env.
func (e *Env) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	return e.scan(start, end, reverse, visit)
}

// FieldName returns the name of the field that an element of a position is
// about: what [partition.Keyspace.Split] returned. nil if it is no field.
func FieldName(element []byte) []byte {
	if len(element) == 0 || element[0] != elementTag {
		return nil
	}
	return element[1:]
}
