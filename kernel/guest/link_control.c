// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * sojourn_link: cables for a guest in virtual time, and a probe that records every packet on them.
 *
 * A cable is a pair of network devices. Each device is a transmitter: a ring of descriptors in front of a link with a rate
 * (in steps, or as delivery opportunities of 1500 bytes), followed by propagation in order. A packet's descriptor is free
 * at the end of its transmission, and only then is the queue discipline dequeued: with one descriptor, exactly when the
 * link becomes idle. With coalescing, descriptors are freed by a later interrupt, and the link continues with the packets
 * in the ring. A queue may pause the previous link (flow control). A device of hosts has an access link for each host
 * instead.
 *
 * Times are those of the guest's monotonic clock. A packet that waited starts at the end of the previous transmission, not
 * when the interrupt is handled, so that the rate is exact.
 *
 * The objects: link_clock.c has times and timers, link_device.c the device, link_pause.c flow control, link_hosts.c access
 * links, link_probe.c the probe, link_records.c the storage of its records, link_sink.c a reader of sockets, and this file
 * the files in /proc/sojourn: control takes lines (docs/explanation/kernel-link.md), stats has the counters of each
 * device, records has the records if the kernel is not a process of the host.
 */
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <net/net_namespace.h>

#include "sojourn_link.h"

/* ---- words and numbers of a line ---- */

static char *control_word(char **line)
{
	char *found;

	do
		found = strsep(line, " ");
	while (found && !*found);
	return found;
}

static int control_number(char **line, u64 *value)
{
	char *text = control_word(line);

	return text ? kstrtou64(text, 10, value) : -EINVAL;
}

static int control_numbers(char **line, u64 *values, int count)
{
	int i, err = 0;

	for (i = 0; i < count && !err; i++)
		err = control_number(line, &values[i]);
	return err;
}

static struct link_dev *control_device(char **line)
{
	const char *name = control_word(line);
	struct link_dev *ld;

	list_for_each_entry(ld, &link_devs, all)
		if (name && !strcmp(ld->dev->name, name))
			return ld;
	return NULL;
}

/* ---- commands ---- */

static int control_steps(char **line, struct link_steps *steps)
{
	size_t most = strlen(*line) / 4 + 1;
	u64 pair[2];
	int err = 0;

	steps->list = kvmalloc_array(most, sizeof(*steps->list), GFP_KERNEL);
	if (!steps->list)
		return -ENOMEM;
	while (*line && **line && steps->count < most) {
		err = control_numbers(line, pair, 2);
		if (err)
			return err;
		steps->list[steps->count++] = (struct link_step){ pair[0], pair[1] };
	}
	return 0;
}

static int control_trace(char **line, struct link_dev *ld)
{
	size_t most = strlen(*line) / 2 + 1;
	u64 ms;
	int err;

	ld->trace = kvmalloc_array(most, sizeof(*ld->trace), GFP_KERNEL);
	if (!ld->trace)
		return -ENOMEM;
	while (*line && **line && ld->trace_count < most) {
		err = control_number(line, &ms);
		if (err)
			return err;
		ld->trace[ld->trace_count++] = ms;
	}
	ld->traced = true;
	return ld->trace_count ? 0 : -EINVAL;
}

static int control_host(char **line, struct link_dev *ld)
{
	u64 v[4];

	return control_numbers(line, v, 4) ?: hosts_add(ld, v[0], v[1], v[2], max_t(u64, v[3], 1));
}

static int control_pair(char **line)
{
	const char *first = control_word(line), *second = control_word(line);
	u64 queued;

	if (!first || !second)
		return -EINVAL;
	return control_number(line, &queued) ?: link_make_pair(first, second, queued);
}

static int control_link(char **line, struct link_dev *ld)
{
	u64 v[7];
	int err = control_numbers(line, v, 7);

	if (err)
		return err;
	ld->index = v[0];
	ld->overhead = v[1];
	ld->ring = max_t(u64, v[2], 1);
	ld->bql = v[3];
	ld->coalesce = v[4];
	ld->noted = v[5];
	ld->atm = v[6];
	return 0;
}

static int control_pause(char **line, struct link_dev *ld)
{
	struct link_dev *before = control_device(line);
	u64 v[4];
	int err = before && *line ? control_numbers(line, v, 4) : -ENODEV;

	if (!err)
		pause_enable(ld, before, (struct link_threshold){ v[0], v[1] }, (struct link_threshold){ v[2], v[3] });
	return err;
}

/* The name of a device with netem follows, which is in the namespace of the caller. */
static int control_impair(char **line, struct link_dev *ld)
{
	const char *name = control_word(line);
	struct net_device *dev = name ? dev_get_by_name(current->nsproxy->net_ns, name) : NULL;

	if (!dev)
		return -ENODEV;
	/* Only the address is compared, and the device exists until the guest ends. */
	ld->impairs = dev;
	dev_put(dev);
	return 0;
}

static int control_limit(char **line)
{
	u64 bytes;
	int err = control_number(line, &bytes);

	if (!err)
		records_limit(bytes);
	return err;
}

static int control_drain(char **line)
{
	u64 v[2];

	return control_numbers(line, v, 2) ?: sink_read(v[0], v[1]);
}

/* Executes a command about a device. */
static int control_of_device(const char *verb, char **line, struct link_dev *ld)
{
	if (!strcmp(verb, "link"))
		return control_link(line, ld);
	if (!strcmp(verb, "pause"))
		return control_pause(line, ld);
	if (!strcmp(verb, "rate"))
		return control_steps(line, &ld->rates);
	if (!strcmp(verb, "delay"))
		return control_steps(line, &ld->delays);
	if (!strcmp(verb, "trace"))
		return control_trace(line, ld);
	if (!strcmp(verb, "host"))
		return control_host(line, ld);
	if (!strcmp(verb, "impair"))
		return control_impair(line, ld);
	return -EINVAL;
}

/* Executes a line. */
static int control_line(char *line)
{
	const char *verb = control_word(&line);
	struct link_dev *ld;
	u64 v;

	if (!verb)
		return -EINVAL;
	if (!strcmp(verb, "pair"))
		return control_pair(&line);
	if (!strcmp(verb, "start"))
		return control_number(&line, &v) ?: link_start_all(v);
	if (!strcmp(verb, "drain"))
		return control_drain(&line);
	if (!strcmp(verb, "probe"))
		return control_number(&line, &v) ?: probe_set(v);
	if (!strcmp(verb, "most"))
		return control_limit(&line);
	ld = control_device(&line);
	return ld && line ? control_of_device(verb, &line, ld) : -ENODEV;
}

/* ---- /proc/sojourn ---- */

static ssize_t control_write(struct file *file, const char __user *from, size_t count, loff_t *offset)
{
	char *text;
	int err;

	if (count > 64 << 20)
		return -E2BIG;
	text = kvmalloc(count + 1, GFP_KERNEL);
	if (!text)
		return -ENOMEM;
	text[count] = 0;
	err = copy_from_user(text, from, count) ? -EFAULT : control_line(strim(text));
	kvfree(text);
	return err ?: count;
}

static int stats_show(struct seq_file *m, void *v)
{
	struct link_dev *ld;

	seq_printf(m, "lost %llu\nlate_ns %llu\n", records_lost, link_latest);
	list_for_each_entry(ld, &link_devs, all)
		seq_printf(m, "%s packets %llu bytes %llu busy_ns %llu stalled_ns %llu drops %llu\n", ld->dev->name,
			   ld->packets, ld->bytes, ld->busy_ns, ld->stalled_ns, ld->drops);
	return 0;
}

static const struct proc_ops control_ops = { .proc_write = control_write };

static int __init sojourn_link_init(void)
{
	struct proc_dir_entry *folder = proc_mkdir("sojourn", NULL);
	int err;

	if (!folder)
		return -ENOMEM;
	err = records_init(folder) ?: probe_init();
	if (err)
		return err;
	proc_create("control", 0600, folder, &control_ops);
	proc_create_single("stats", 0400, folder, stats_show);
	return 0;
}

module_init(sojourn_link_init);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Cables for a guest in virtual time, and a probe that records every packet");
