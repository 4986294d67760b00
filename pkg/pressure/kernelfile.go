package pressure

import "github.com/evictd/evictd/internal/kernelfile"

// Buffer sizes. /proc/meminfo has about 1,500 bytes; a file that fills its buffer is not the
// expected one.
const (
	meminfoMax = 16 << 10
	statMax    = 64 << 10
	numberMax  = 128
)

// kernelFile is a kernel file with its own buffer, so that its content stays valid while
// another file is read.
type kernelFile struct {
	kernelfile.File
	buffer []byte
}

// newKernelFile opens nothing; the first read does.
func newKernelFile(path string, size int) *kernelFile {
	return &kernelFile{File: kernelfile.New(path), buffer: make([]byte, size)}
}

// read returns the whole file. The bytes are valid until the next read.
func (f *kernelFile) read() ([]byte, error) { return f.Read(f.buffer) }

// number returns the one number that the file holds.
func (f *kernelFile) number() (int64, error) { return f.Number(f.buffer) }
