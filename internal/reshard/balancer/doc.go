// Package balancer closes the loop of heat: it measures shards, classifies what is hot, plans what is done about it,
// starts the jobs, and looks whether they helped. Each decision, also that nothing is done, is kept with its reason.
//
// A [Balancer] runs beside a node. Package heat measures, package classify names what is wrong, package distributor
// plans, and package mover does the work; the balancer carries figures from one to the next, and owns the clock. What it
// has decided is in the catalog, bounded, and survives a restart.
//
// See DESIGN.md for the round, and for what is kept.
package balancer
