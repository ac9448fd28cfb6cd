package advisor

// Bounds of what an analysis keeps. Together they hold it below 500 MB whatever the input.
const (
	// MaxColumns is how many columns are analysed. Each takes about half a MiB of sketches.
	MaxColumns = 256
	// MaxRecordBytes is the longest record that a source reads. A longer one is skipped and counted.
	MaxRecordBytes = 1 << 20
	// maxSampleRows is how many rows are kept to simulate on. A share of one sixteenth is then known to
	// 0.2 percentage points; half as many rows would make 0.3.
	maxSampleRows = 1 << 16
	// maxSampleBytes bounds those rows together.
	maxSampleBytes = 40 << 20
	// burstRows is how many consecutive rows are looked at as one moment of writing.
	burstRows = 1024
	// maxBursts is how many such moments are kept.
	maxBursts = 48
	// maxBurstBytes bounds the rows of all moments together.
	maxBurstBytes = 32 << 20
	// maxKeptValue is how much of a value is kept in the sample. A column with longer ones is none to
	// make a key of.
	maxKeptValue = 256
	// maxCandidates bounds how many candidates are simulated.
	maxCandidates = 400
	// minRows is the least sample that is graded.
	minRows = 1000
	// minRowsPerShard is the least sample for each shard that is graded: a shard's share is then known
	// to a fifth of itself.
	minRowsPerShard = 25
	// maxShards bounds the shards of a simulation.
	maxShards = 1024
	// maxNamedProblems is how many problems of the input are named; the others are counted.
	maxNamedProblems = 20
	// topValues is how many of the most frequent values of a column are reported.
	topValues = 5
	// identValues is how many values tell what kind of identifier a column holds.
	identValues = 4096
	// maxWorkers is how many goroutines parse and count. Each takes a few MiB.
	maxWorkers = 16
)
