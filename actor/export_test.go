package actor

// StateOf is the state of an actor that is stopped.
func StateOf[S, M, R any](a *Actor[S, M, R]) *S { return &a.state }
