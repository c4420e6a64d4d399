//go:build linux

package faultfs

import (
	"context"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
)

// node is a file or a directory of the disk: that of the tmpfs, whose syncs meet the
// fault first. Reads and writes go from the kernel to the tmpfs where the library and
// the kernel (from 6.9 on) can have that, so that nothing else is slow.
type node struct {
	*fs.LoopbackNode
	s *suffering
}

var (
	_ fs.NodeWrapChilder    = node{}
	_ fs.NodeFsyncer        = node{}
	_ fs.NodeOpendirHandler = node{}
)

// WrapChild makes all that is below a node one, too.
func (n node) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	l, ok := child.(*fs.LoopbackNode)
	if !ok {
		return child
	}
	return node{l, n.s}
}

// Fsync is fsync and fdatasync of a file.
func (n node) Fsync(ctx context.Context, f fs.FileHandle, flags uint32) syscall.Errno {
	if errno := n.s.meet(ctx); errno != 0 {
		return errno
	}
	if f, ok := f.(fs.FileFsyncer); ok {
		return f.Fsync(ctx, flags)
	}
	return syscall.ENOTSUP
}

// OpendirHandle opens a directory.
func (n node) OpendirHandle(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	f, fuseFlags, errno := n.LoopbackNode.OpendirHandle(ctx, flags)
	if d, ok := f.(opened); ok && errno == 0 {
		f = directory{d, n.s}
	}
	return f, fuseFlags, errno
}

// opened is what an open directory of the library can do.
type opened interface {
	fs.FileReaddirenter
	fs.FileReleasedirer
	fs.FileSeekdirer
	fs.FileFsyncdirer
}

// directory is one that is open.
type directory struct {
	opened
	s *suffering
}

// Fsyncdir is fsync of a directory.
func (d directory) Fsyncdir(ctx context.Context, flags uint32) syscall.Errno {
	if errno := d.s.meet(ctx); errno != 0 {
		return errno
	}
	return d.opened.Fsyncdir(ctx, flags)
}
