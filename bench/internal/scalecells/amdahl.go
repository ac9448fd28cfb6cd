package scalecells

// Bound is how many times as fast as one processor many are at most, by Amdahl's law, if a share of the work is done by
// some threads and each part of that work by one of them alone. The rest is spread over all processors.
func Bound(share float64, threads, cores int) float64 {
	return 1 / (share/float64(min(threads, cores)) + (1-share)/float64(cores))
}

// MaxSerialShare is the largest share of the work of a single thread with which many processors may still be so many
// times as fast as one.
func MaxSerialShare(times float64, cores int) float64 {
	return (float64(cores)/times - 1) / float64(cores-1)
}
