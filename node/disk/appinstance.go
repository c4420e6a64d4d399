package disk

import "fmt"

// MaxAppInstance is the longest app instance that is stored, in bytes.
const MaxAppInstance = 256

// appInstance is the content of app.json.
type appInstance struct {
	Format   int    `json:"format"`
	Instance string `json:"instance"`
}

const appFile = "app.json"

// AppInstance returns the app instance that KeepAppInstance stored last, empty if none.
func (d *Dir) AppInstance() (string, error) {
	var a appInstance
	_, err := load(d.b, appFile, &a)
	return a.Instance, err
}

// KeepAppInstance stores, durably, which instance of the app the node has seen. instance has
// 1 to MaxAppInstance bytes. The caller makes one call at a time. It waits for the disk, and
// other methods of d do not wait for it.
func (d *Dir) KeepAppInstance(instance string) error {
	if instance == "" || len(instance) > MaxAppInstance {
		return fmt.Errorf("disk: app instance of %d bytes, want 1 to %d", len(instance), MaxAppInstance)
	}
	return d.keep(appFile, appInstance{Format: format, Instance: instance})
}

// keep writes a file, durably, without a lock: Boot and Cluster must not wait for a disk that
// hangs. The caller writes the file from one goroutine at a time.
func (d *Dir) keep(name string, v any) error {
	d.mu.Lock()
	done := d.done
	d.mu.Unlock()
	if done {
		return errClosed
	}
	return save(d.b, name, v)
}
