// Package plant answers one question: is this bug planted on purpose?
//
// A harness that never caught a bug proves nothing. So the places where a
// guarantee is kept ask [Bug] whether to break it. In a normal build the answer
// is the constant false and costs nothing; in one with the build tag plant it is
// true for the name in the environment variable CLEAVE_PLANT.
package plant
