package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// race has two customers want each cabin at the same time. It returns how many
// customers were refused, and an error if a cabin was not sold to exactly one.
func race(ctx context.Context, l *line, cabins []cabin) (refused int, err error) {
	winners := make([]string, len(cabins))
	for i, c := range cabins {
		rivals := [2]string{fmt.Sprintf("ann%d", i), fmt.Sprintf("ben%d", i)}
		var errs [2]error
		var wg sync.WaitGroup
		for j, customer := range rivals {
			wg.Go(func() { errs[j] = book(ctx, l, c, customer) })
		}
		wg.Wait()
		for j, err := range errs {
			switch {
			case err == nil && winners[i] == "":
				winners[i] = rivals[j]
			case err == nil:
				return 0, fmt.Errorf("%s: %s was sold to %v", l.name, c, rivals)
			case errors.Is(err, errTaken):
				refused++
			default:
				return 0, err
			}
		}
	}
	says, err := l.plan(ctx, cabins)
	if err != nil {
		return 0, err
	}
	for i, c := range cabins {
		if winners[i] == "" || says[i] != sold(winners[i]) {
			return 0, fmt.Errorf("%s: %s is %q, but %q was told so", l.name, c, says[i], winners[i])
		}
	}
	return refused, nil
}

// book holds a cabin and confirms it.
func book(ctx context.Context, l *line, c cabin, customer string) error {
	if err := l.hold(ctx, c, customer, "1200", holdTime); err != nil {
		return err
	}
	return l.confirm(ctx, c, customer)
}
