package heat

// maxWindows bounds what one shard takes: more windows show nothing that their neighbours do not.
const maxWindows = 8

const (
	// MaxKeyBytes is how much is kept of a key.
	MaxKeyBytes = 256
	// maxTopKeys bounds a table to about half a gigabyte: above it, one wrong option would take all memory there is.
	maxTopKeys = 1 << 20
	// keptNames is how many commands and clients are known of a key. One or two make it hot; the others are noise.
	keptNames = 4
	// maxNameBytes is how much is kept of the name of a command or a client.
	maxNameBytes = 64
)

const (
	// minRangeSamples and maxRangeSamples bound the sample of ranges: a few operations show nothing, and a million take
	// half a gigabyte with the longest keys.
	minRangeSamples, maxRangeSamples = 16, 1 << 20
	// leastWeight is what is left of an operation after twenty half-lives. With less it is forgotten.
	leastWeight = 1e-6
	// rangesStream keeps the random numbers of a sample of ranges apart from others of the same seed.
	rangesStream = 0x72616e676573
	// maxPieces bounds the pieces of one split.
	maxPieces = 1024
	// costBytes is how many bytes cost as much as an operation: copying a KiB takes about as long as looking a key up.
	costBytes = 1 << 10
	// costService is how much service time costs as much as an operation, which takes far less: 66 microseconds, a
	// power of two nanoseconds to divide by.
	costService = 1 << 16
)

// maxSlots is how many slots a uint16 distinguishes.
const maxSlots = 1 << 16

// maxEvery is the rarest sampling: one of a million operations says little in a minute.
const maxEvery = 1 << 20

// recorderStream keeps the random numbers of a recorder apart from others of the same seed.
const recorderStream = 0x7265636f7264

const (
	// maxMapRows bounds the rows of a heat map: no screen has more.
	maxMapRows = 4096
	// minMapBytes is what the samples of a map take with the longest keys, and some columns.
	minMapBytes = 1 << 20
	// mapSamples is how many operations a column is made of. With 512 rows a row of even load has two of a thousand:
	// its level is off by half, which is five of 255. More would take a larger part of the cap than they show.
	mapSamples = 1024
	// recentFactor is what a column counts in the making of rows after another one: a half after about a minute of
	// columns of ten seconds.
	recentFactor = 0.9
	// staleFactor is what all older columns count besides when rows are made anew: together as much as the last, whose
	// load has made it necessary.
	staleFactor = 0.1
	// minAxisColumns is for how many columns at least rows stay as they are: a minute. Rows that change in each
	// column show nothing.
	minAxisColumns = 6
	// coarseShares is how many times its share a row may have before there are new rows.
	coarseShares = 8
	// maxBounds is of how many rows a column knows the first and the last key: each takes about 100 bytes, and a column
	// has few moving edges.
	maxBounds = 4
	// outerShare is the share of a row's load at each end that may be of other keys: less than one of its coarseShares.
	outerShare = 0.1
	// fewRows is what old columns are reduced to before they are forgotten: with keys of 80 bytes that nothing
	// shares, a row takes 100, and 1066 columns of 16 rows still fit.
	fewRows = 16
)

// maxShared bounds what one shared recorder takes; more recorders than processors wait no less for their locks.
const maxShared = 64

// What patterns are made of. The tests of FindPatterns hold them between what has to be found and what must not be.
const (
	// maxPatterns is how many of a kind are found at most: more labels than that cover the map.
	maxPatterns = 8
	// minPatternColumns is how long a line lasts at least: half a minute.
	minPatternColumns = 3
	// maxPatternGap is how many columns in which it is not seen end a pattern.
	maxPatternGap = 2
	// medianColumns is of how many columns, at least half, the median of a row is made: of 360 it takes longer than all else.
	medianColumns = 64
	// quietShare is what a column has at least of the median, to count.
	quietShare = 0.02
	// lineShare is what a line has of its columns at least. By Zipf's law the hottest of 5,000 keys has a ninth.
	lineShare = 0.125
	// lineTimes is how many times the share of an even load a line has at least: of four rows each has a lot.
	lineTimes = 4
	// burstTimes is how many times the usual load of all, and of a share burstRows of rows, is a burst.
	burstTimes, burstRows = 2.5, 0.6
	// maxBurstTimes bounds how many times as much as usual is said to be asked: there may be next to nothing usual.
	maxBurstTimes = 1e6
	// diagonalTimes is how many times its mean a row has where a diagonal passes, diagonalShare what it has of its columns
	// at least, and diagonalSteady how many of its moves go one way.
	diagonalTimes, diagonalShare, diagonalSteady = 3, 0.03, 0.75
	// minDiagonalColumns and minDiagonalRows are how far it goes at least.
	minDiagonalColumns, minDiagonalRows = 6, 6
	// stepMoves is from how many of its last moves is known where a track goes on.
	stepMoves = 16
)
