package disk

import "fmt"

// MaxAppInstance is the maximum length of a stored process name in bytes.
const MaxAppInstance = 256

// appInstance is the content of app.json, and of the files of the app instances after the first one.
// Instance is the name by which an app instance identifies its process. A different name after a restart
// of the node means that the app has restarted in the meantime, and so holds no old copies of shards.
type appInstance struct {
	Format   int    `json:"format"`
	Instance string `json:"instance"`
}

const appFile = "app.json"

// furtherAppFile returns the name of the file of an app instance after the first one. Names count from
// 1, so the second app instance, which has the index 1, uses app-2.json.
func furtherAppFile(index int) string { return fmt.Sprintf("app-%d.json", index+1) }

// FurtherAppInstance returns the stored process name of the app instance with this index, or "" if none
// is stored. index must be at least 1, because AppInstance returns the name of the first app instance,
// which has the index 0.
func (d *Dir) FurtherAppInstance(index int) (string, error) {
	var stored appInstance
	_, err := loadFile(d.backend, furtherAppFile(index), &stored)
	return stored.Instance, err
}

// StoreFurtherAppInstance durably stores the process name of the app instance with this index, which
// must be at least 1. It has the same requirements as StoreAppInstance.
func (d *Dir) StoreFurtherAppInstance(index int, instance string) error {
	if instance == "" || len(instance) > MaxAppInstance {
		return fmt.Errorf("disk: app instance of %d bytes, want 1 to %d", len(instance), MaxAppInstance)
	}
	return d.saveOutsideLock(furtherAppFile(index), appInstance{Format: format, Instance: instance})
}

// AppInstance returns the stored process name of the first app instance, or "" if none is stored.
func (d *Dir) AppInstance() (string, error) {
	var stored appInstance
	_, err := loadFile(d.backend, appFile, &stored)
	return stored.Instance, err
}

// StoreAppInstance durably stores the process name of the first app instance. instance must have 1 to
// MaxAppInstance bytes. Calls must not overlap. The call waits for the disk, but does not block
// other methods of d.
func (d *Dir) StoreAppInstance(instance string) error {
	if instance == "" || len(instance) > MaxAppInstance {
		return fmt.Errorf("disk: app instance of %d bytes, want 1 to %d", len(instance), MaxAppInstance)
	}
	return d.saveOutsideLock(appFile, appInstance{Format: format, Instance: instance})
}

// saveOutsideLock writes a file durably. It holds the lock only to check whether d is closed, and not
// during the write, so that Boot and Cluster do not block if the disk hangs. Calls for the same file
// must not overlap.
func (d *Dir) saveOutsideLock(name string, content any) error {
	d.mu.Lock()
	closed := d.closed
	d.mu.Unlock()
	if closed {
		return errClosed
	}
	return saveFile(d.backend, name, content)
}
