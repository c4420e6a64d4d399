// Package nextversion builds Shardway as a later version with one more format version, so
// that a test can roll it out in a cluster, and roll it back.
//
// It uses an overlay of the go command: the source does not contain the change, and no
// release can contain it. Everything that this program writes in its format version
// begins with a byte that the other program considers corrupt: log entries, snapshots,
// heartbeats and responses.
package nextversion

import "shardway/internal/overlay"

// Level is the format version that only this program supports.
const Level = 5

// Overlay writes the files of the overlay into dir and returns the argument of go build
// -overlay. root is the root of the module.
func Overlay(root, dir string) (string, error) {
	files := overlay.New(root)
	for _, edit := range []overlay.Edit{
		{Decl: "ack.MinFormatVersion", Old: "	MaxFormatVersion FormatVersion = 4\n", New: "	MaxFormatVersion FormatVersion = 5\n"},
		{
			Decl: "ack.newWriter", Old: "\treturn writer{buf: []byte{byte(max(version, MinFormatVersion))}}\n",
			New: `	if version == 5 {
		return writer{buf: []byte{5, 'L'}}
	}
	return writer{buf: []byte{byte(max(version, MinFormatVersion))}}
`,
		},
		{Decl: "ack.reader.readFormatVersion", Old: "		r.err, r.buf = err, nil\n	}\n", New: `		r.err, r.buf = err, nil
	}
	if version == 5 && r.byte() != 'L' {
		r.fail("no mark of formatVersion 5")
	}
`},
	} {
		if err := files.Edit(edit); err != nil {
			return "", err
		}
	}
	return files.Write(dir)
}
