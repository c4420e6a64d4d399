//go:build linux

package faultfs

import (
	"context"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
)

// node is a file or a directory of the disk: the one of the tmpfs, with the fault before
// its sync calls. The kernel passes reads and writes directly to the tmpfs if the library
// and the kernel (6.9 or later) support it, so only syncs are slow.
type node struct {
	*fs.LoopbackNode
	injector *injector
}

var (
	_ fs.NodeWrapChilder    = node{}
	_ fs.NodeFsyncer        = node{}
	_ fs.NodeOpendirHandler = node{}
)

// WrapChild wraps all files below a node.
func (n node) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	loopback, ok := child.(*fs.LoopbackNode)
	if !ok {
		return child
	}
	return node{loopback, n.injector}
}

// Fsync implements fsync and fdatasync of a file.
func (n node) Fsync(ctx context.Context, handle fs.FileHandle, flags uint32) syscall.Errno {
	if errno := n.injector.apply(ctx); errno != 0 {
		return errno
	}
	if handle, ok := handle.(fs.FileFsyncer); ok {
		return handle.Fsync(ctx, flags)
	}
	return syscall.ENOTSUP
}

// OpendirHandle opens a directory.
func (n node) OpendirHandle(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	handle, fuseFlags, errno := n.LoopbackNode.OpendirHandle(ctx, flags)
	if dir, ok := handle.(libraryDir); ok && errno == 0 {
		handle = directory{dir, n.injector}
	}
	return handle, fuseFlags, errno
}

// libraryDir is the interface of an open directory of the library.
type libraryDir interface {
	fs.FileReaddirenter
	fs.FileReleasedirer
	fs.FileSeekdirer
	fs.FileFsyncdirer
}

// directory is an open directory.
type directory struct {
	libraryDir
	injector *injector
}

// Fsyncdir injects the configured fault, and then implements fsync of a directory.
func (d directory) Fsyncdir(ctx context.Context, flags uint32) syscall.Errno {
	if errno := d.injector.apply(ctx); errno != 0 {
		return errno
	}
	return d.libraryDir.Fsyncdir(ctx, flags)
}
