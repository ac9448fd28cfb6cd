package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/cleavekv/cleave/bench/internal/serverprocess"
)

// costAbout says what measureCost measures.
const costAbout = "Processor time of the server for an operation, with heat and relief as they are and with `--heat off`, of two servers " +
	"each that are asked in turn by redis-benchmark: the median of %d rounds, and of their ratios the median, lowest and highest."

const costRounds = 9

// costLoads are measured one after the other in each round.
var costLoads = []serverprocess.Load{
	{Test: "get", Depth: 1, Requests: 150_000, Keys: 100_000},
	{Test: "set", Depth: 1, Requests: 150_000, Keys: 100_000},
	{Test: "get", Depth: 16, Requests: 1_000_000, Keys: 100_000},
	{Test: "set", Depth: 16, Requests: 1_000_000, Keys: 100_000},
	{Test: "get", Depth: 64, Requests: 2_000_000, Keys: 100_000},
	{Test: "set", Depth: 64, Requests: 2_000_000, Keys: 100_000},
}

// measureCost measures what it costs to look for hot spots where there are none. It returns lines of the report.
func measureCost(binary, dir string, progress io.Writer) (lines []string, err error) {
	var servers []*serverprocess.Server
	defer func() {
		for _, s := range servers {
			s.Stop()
		}
	}()
	kinds := []int{0, 1, 1, 0} // the server that is started first may be slower than the others
	for i, kind := range kinds {
		heat := []string{"on", "off"}[kind]
		s, err := serverprocess.Launch(serverprocess.Options{
			Name: "heat " + heat, Path: binary, Dir: dir,
			Args: func(resp, dir string) []string {
				return []string{"serve", "--http-addr", "none", "--resp-addr", "127.0.0.1:" + resp, "--data", fmt.Sprint(dir, "/cost", i), "--appendfsync", "everysec", "--heat", heat}
			},
		})
		if err != nil {
			return nil, err
		}
		servers = append(servers, s)
		if err := s.Fill(100_000); err != nil {
			return nil, err
		}
	}
	costs := make([][2][]float64, len(costLoads)) // nanoseconds an operation, with and without
	for round := range costRounds {
		fmt.Fprintf(progress, "  round %d\n", round+1)
		for i, load := range costLoads {
			for kind := range costs[i] {
				costs[i][kind] = append(costs[i][kind], 0)
			}
			for j := range servers {
				which := (round + j) % len(servers) // each is first as often
				before := servers[which].CPU()
				if _, err := servers[which].Benchmark(load); err != nil {
					return nil, err
				}
				used := servers[which].CPU() - before
				costs[i][kinds[which]][round] += float64(used.Nanoseconds()) / float64(2*load.Requests)
			}
		}
	}
	for i, load := range costLoads {
		var ratios []float64
		for r := range costRounds {
			ratios = append(ratios, costs[i][0][r]/costs[i][1][r])
		}
		slices.Sort(ratios)
		lines = append(lines, fmt.Sprintf("| %s, %d at a time | %.0f ns | %.0f ns | %.3f (%.3f to %.3f) |", load.Test, load.Depth,
			median(costs[i][0]), median(costs[i][1]), median(ratios), ratios[0], ratios[len(ratios)-1]))
	}
	return lines, nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
