// Package nextlevel builds Shardway as a later version that knows one level more, so
// that a test can roll it through a cluster, and back.
//
// It is an overlay of the go command: the source has no trace of it, and no release
// can have it. What this program writes at its level begins with a mark that the one
// without it takes for corrupt: log entries, snapshots, heartbeats and answers.
package nextversion

import "shardway/internal/overlay"

// Level is the one that this program knows beyond the others.
const Level = 3

// Overlay writes the later version into dir and returns what go build -overlay takes.
// root is the module's.
func Overlay(root, dir string) (string, error) {
	o := overlay.New(root)
	for _, e := range []overlay.Edit{
		{Decl: "ack.MinLevel", Old: "	MaxLevel Level = 2\n", New: "	MaxLevel Level = 3\n"},
		{
			Decl: "ack.newWriter", Old: "func newWriter(l Level) writer { return writer{b: []byte{byte(max(l, MinLevel))}} }\n",
			New: `func newWriter(l Level) writer {
	if l == 3 {
		return writer{b: []byte{3, 'L'}}
	}
	return writer{b: []byte{byte(max(l, MinLevel))}}
}
`,
		},
		{Decl: "ack.reader.level", Old: "		r.err, r.b = err, nil\n	}\n", New: `		r.err, r.b = err, nil
	}
	if l == 3 && r.byte() != 'L' {
		r.fail("no mark of level 3")
	}
`},
	} {
		if err := o.Edit(e); err != nil {
			return "", err
		}
	}
	return o.Write(dir)
}
