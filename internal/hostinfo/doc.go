// Package hostinfo says what evictd's own readers do not: which processes outside the pods
// use the node's memory, and what the memory is used by.
//
//	reader := hostinfo.New("/host", "/kubepods.slice")
//	largest, err := reader.Processes(ctx)
//
// It is the only importer of gopsutil, and it is for moments that are recorded or scraped,
// never for the loop: the library allocates for each line it reads. Four things about
// gopsutil v3.24.5 are taken care of here.
//
//   - It answers zeros without an error where a file cannot be read. A zero that no running
//     host shows is an error here.
//   - It indexes the fields of a line without counting them. A panic is an error here.
//   - It has contexts and does not look at them. A reading that takes too long is left to end
//     by itself, and the same question is not asked again meanwhile.
//   - Some of its functions start processes (host.InfoWithContext, Process.Children) or send
//     signals (process.NewProcess sends signal 0). They are not called.
package hostinfo
