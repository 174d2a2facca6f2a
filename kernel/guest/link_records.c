// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * sojourn_link: storage of records.
 *
 * User-Mode Linux is a process of the host and writes records to the host's file RECORDS_FILE. Any other kernel keeps them
 * in memory until /proc/sojourn/records is read.
 */
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#ifdef CONFIG_UML
#include <os.h>
#endif

#include "sojourn_link.h"

/* Maximum size of all records in memory. */
#define RECORDS_MOST (384UL << 20)
/* Records are allocated, and written to the host's file, in chunks of this size. */
#define RECORDS_CHUNK (1UL << 20)
/* The host's file, in the folder of the process that is this kernel. */
#define RECORDS_FILE "run/seen.bin"

bool records_on;
u64 records_lost;

static u8 **records_chunks;
/* Bytes in the chunks, and those of them that were read. */
static size_t records_written, records_taken;
/* Bytes of all records, and their limit. */
static u64 records_total, records_most = U64_MAX;
/* The host's descriptor of RECORDS_FILE; -1 if records are kept in memory. */
static int records_file = -1;

#ifdef CONFIG_UML
/*
 * Bypassing the guest's own file system saves two copies of each byte. O_EXCL ensures that the file is ours, whatever a
 * program of the guest has put into the folder.
 */
static int records_open(void)
{
	struct openflags flags = of_create(of_write(OPENFLAGS()));

	flags.e = 1;
	records_file = os_open_file(RECORDS_FILE, flags, 0644);
	return min(records_file, 0);
}

void records_flush(void)
{
	size_t bytes = records_written;

	records_written = 0;
	if (os_write_file(records_file, records_chunks[0], bytes) != bytes)
		records_lost += bytes / sizeof(union record);
}
#else
static int records_open(void)
{
	records_most = RECORDS_MOST;
	return 0;
}

void records_flush(void)
{
}
#endif

void records_keep(const union record *record)
{
	size_t chunk = records_written / RECORDS_CHUNK;

	if (records_total + sizeof(*record) > records_most) {
		records_lost++;
		return;
	}
	if (!records_chunks[chunk]) {
		records_chunks[chunk] = kmalloc(RECORDS_CHUNK, GFP_ATOMIC | __GFP_NOWARN);
		if (!records_chunks[chunk]) {
			records_lost++;
			return;
		}
	}
	memcpy(records_chunks[chunk] + records_written % RECORDS_CHUNK, record, sizeof(*record));
	records_written += sizeof(*record);
	records_total += sizeof(*record);
	if (records_file >= 0 && records_written == RECORDS_CHUNK)
		records_flush();
}

/* Lowers the limit on the size of all records. */
void records_limit(u64 bytes)
{
	records_most = min_t(u64, bytes, RECORDS_MOST);
}

static ssize_t records_read(struct file *file, char __user *to, size_t count, loff_t *offset)
{
	size_t done = 0;

	/* Records for the host's file are not for readers. */
	while (records_file < 0 && done < count && records_taken < records_written) {
		size_t some = min3(count - done, records_written - records_taken,
				   RECORDS_CHUNK - records_taken % RECORDS_CHUNK);
		u8 *chunk = records_chunks[records_taken / RECORDS_CHUNK];

		if (copy_to_user(to + done, chunk + records_taken % RECORDS_CHUNK, some))
			return -EFAULT;
		done += some;
		records_taken += some;
	}
	if (records_taken == records_written)
		records_taken = records_written = records_total = 0;
	return done;
}

static const struct proc_ops records_ops = { .proc_read = records_read };

int records_init(struct proc_dir_entry *folder)
{
	int err = records_open();

	if (err)
		return err;
	records_chunks = kvcalloc(RECORDS_MOST / RECORDS_CHUNK + 1, sizeof(*records_chunks), GFP_KERNEL);
	if (!records_chunks)
		return -ENOMEM;
	proc_create("records", 0400, folder, &records_ops);
	return 0;
}
