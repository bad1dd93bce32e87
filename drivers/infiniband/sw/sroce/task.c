// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What callers leave to be done: each CPU has a list of it, and a tasklet that works it off in
 * turns.
 *
 * The kernel runs all tasklets that are queued on a CPU in one go. Were each queue pair to have
 * one of its own, its share would be bounded, and the sum of them would not: a program with
 * thousands of queue pairs would keep the CPU from everybody, for seconds. One tasklet can look
 * at the clock, and who has to wait keeps its place.
 */
#include "sroce.h"

/*
 * So long at a time, and one task longer at most. Then other softirqs have their turn, and after
 * MAX_SOFTIRQ_TIME or once somebody wants the CPU, ksoftirqd goes on, which shares it
 * (handle_softirqs()).
 */
#define TASKS_PASS_NS	(500 * NSEC_PER_USEC)

/**
 * struct sroce_tasks - what is to be done on a CPU
 * @lock: for @list and @num; a leaf
 * @list: tasks that are queued, the oldest first
 * @num: how many
 * @tasklet: runs them; it is scheduled, or running, while there are any
 */
struct sroce_tasks {
	raw_spinlock_t lock;
	struct list_head list;
	u32 num;
	struct tasklet_struct tasklet;
};

static DEFINE_PER_CPU(struct sroce_tasks, sroce_tasks);

/*
 * A task that has become queued while it does not run; by who made it so, or who ran it. Interrupts
 * have been off since: who is preempted in between has others take it for queued.
 */
static void tasks_add(struct sroce_task *task)
{
	struct sroce_tasks *on = this_cpu_ptr(&sroce_tasks);
	bool first;

	raw_spin_lock(&on->lock);
	first = !on->num;
	WRITE_ONCE(on->num, on->num + 1);
	list_add_tail(&task->entry, &on->list);
	WRITE_ONCE(task->on, on);
	raw_spin_unlock(&on->lock);
	/* else it is scheduled, or looks once more before it ends */
	if (first)
		tasklet_schedule(&on->tasklet);
}

/* @on->lock is held. */
static void tasks_del(struct sroce_tasks *on, struct sroce_task *task, int state)
{
	list_del(&task->entry);
	WRITE_ONCE(on->num, on->num - 1);
	WRITE_ONCE(task->on, NULL);
	/* a full barrier, which pairs with that of sroce_task_schedule() */
	atomic_xchg(&task->state, state);
}

/* Return: the task whose turn it is, to be run; or NULL. */
static struct sroce_task *tasks_next(struct sroce_tasks *on)
{
	struct sroce_task *task;
	unsigned long flags;

	raw_spin_lock_irqsave(&on->lock, flags);
	task = list_first_entry_or_null(&on->list, struct sroce_task, entry);
	if (task)
		tasks_del(on, task, SROCE_TASK_RUNS);
	raw_spin_unlock_irqrestore(&on->lock, flags);
	return task;
}

static void task_run(struct sroce_task *task)
{
	unsigned long flags;

	task->run(task);
	local_irq_save(flags);
	/* if it is not queued, this was the last touch of it */
	if (atomic_fetch_andnot(SROCE_TASK_RUNS, &task->state) & SROCE_TASK_QUEUED)
		tasks_add(task);
	local_irq_restore(flags);
}

static void tasks_run(struct tasklet_struct *tasklet)
{
	struct sroce_tasks *on = container_of(tasklet, struct sroce_tasks, tasklet);
	/* local_clock() may be no finer than a jiffy */
	const ktime_t end = ktime_add_ns(ktime_get(), TASKS_PASS_NS);
	/* those that come meanwhile wait for the packets of these to be received */
	u32 n = READ_ONCE(on->num);
	struct sroce_task *task;

	while (n-- && (task = tasks_next(on))) {
		task_run(task);
		if (ktime_after(ktime_get(), end))
			break;
	}
	/* pairs with the lock that a first one is added under: it is seen here, or schedules us */
	if (READ_ONCE(on->num))
		tasklet_schedule(tasklet);
}

/**
 * sroce_task_init - set up a task
 * @task: the task
 * @run: what it does: a bounded share, in softirq, with no lock held. It is never called for one
 *	task by two CPUs at once.
 */
void sroce_task_init(struct sroce_task *task, void (*run)(struct sroce_task *task))
{
	task->run = run;
	task->on = NULL;
	atomic_set(&task->state, 0);
}

/**
 * sroce_task_schedule - have a task run before long, on this CPU
 * @task: the task
 *
 * Any context. It runs once, from its beginning, after this call, however often it is scheduled
 * until then; what the caller wrote before is seen by it. It may schedule itself.
 */
void sroce_task_schedule(struct sroce_task *task)
{
	unsigned long flags;

	local_irq_save(flags);
	/* a full barrier, which pairs with that of tasks_del(); one that runs is added by who runs it */
	if (!atomic_fetch_or(SROCE_TASK_QUEUED, &task->state))
		tasks_add(task);
	local_irq_restore(flags);
}

/* Return: it does not run, and will not. */
static bool task_ended(struct sroce_task *task)
{
	struct sroce_tasks *on = READ_ONCE(task->on);
	bool queued = false;
	unsigned long flags;

	if (on) {
		raw_spin_lock_irqsave(&on->lock, flags);
		queued = task->on == on;
		if (queued)
			tasks_del(on, task, 0);
		raw_spin_unlock_irqrestore(&on->lock, flags);
	}
	/* pairs with task_run() */
	return queued || !atomic_read_acquire(&task->state);
}

/**
 * sroce_task_kill - end a task
 * @task: the task; nobody schedules it any more, itself excepted, which stops to
 *
 * May sleep, for as long as the task runs: one that is queued is not waited for.
 */
void sroce_task_kill(struct sroce_task *task)
{
	while (!task_ended(task))
		usleep_range(SROCE_TURN_US, 2 * SROCE_TURN_US);
}

/**
 * sroce_tasks_init - get ready for tasks
 *
 * When the module is loaded.
 */
void sroce_tasks_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct sroce_tasks *on = per_cpu_ptr(&sroce_tasks, cpu);

		raw_spin_lock_init(&on->lock);
		INIT_LIST_HEAD(&on->list);
		tasklet_setup(&on->tasklet, tasks_run);
	}
}

/**
 * sroce_tasks_exit - the module goes
 *
 * May sleep. All tasks have ended.
 */
void sroce_tasks_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		tasklet_kill(&per_cpu_ptr(&sroce_tasks, cpu)->tasklet);
}
