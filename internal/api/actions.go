package api

// Price is what a change is expected to cost and to bring.
type Price struct {
	// Rows and Bytes are to be carried to other stores, and Moves is how many shards get
	// another group.
	Rows  uint64 `json:"rows"`
	Bytes uint64 `json:"bytes"`
	Moves int    `json:"moves"`
	// Seconds is of all of it, PauseSeconds how long each range that goes to another
	// store takes no writes.
	Seconds      float64 `json:"seconds"`
	PauseSeconds float64 `json:"pause_seconds"`
	// SkewBefore and SkewAfter are how much more the fullest group has than the mean, in
	// bytes: 1 is even.
	SkewBefore float64 `json:"skew_before"`
	SkewAfter  float64 `json:"skew_after"`
}

// Plan is what an action would do.
type Plan struct {
	// Summary says it in a sentence, and Steps one by one, as far as they are known.
	Summary string   `json:"summary"`
	Steps   []string `json:"steps"`
	// Price is that of a change of the map; others have none.
	Price *Price `json:"price,omitempty"`
	// Irreversible tells that nothing takes it back.
	Irreversible bool `json:"irreversible,omitempty"`
}

// Action is the answer to whatever changes something.
type Action struct {
	// DryRun tells that nothing was done.
	DryRun bool `json:"dry_run"`
	Plan   Plan `json:"plan"`
	// Job is, or was a moment ago, at work on it, with status 202; none if it took no job,
	// with status 200.
	Job *Job `json:"job,omitempty"`
}
