// Package process makes a running node out of a Config: it opens the ports and
// the data directory, turns the settings into the Options of every package, and
// runs the node with its admin ports beside it.
//
// It is all that the command run does, and the only place that knows both the
// settings and the packages they are for. New opens, Run serves and closes; each
// is called once.
package process
