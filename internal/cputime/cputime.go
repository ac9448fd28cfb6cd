// Package cputime returns how much processor time the process has used.
package cputime
